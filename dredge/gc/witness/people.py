"""What a person does about owner and block: `dredge gc own` and `dredge gc lift-block`.

Each takes the lease, so that no run is at work meanwhile, and is kept with who, when and why (`consents`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dredge.errors import ConfigError, RefusedError
from dredge.gc.config import Safety
from dredge.gc.run import make_lease, open_state
from dredge.gc.witness.consents import ALIAS, OWN, WITHOUT_ID, Consent, check_reason, record_consent
from dredge.gc.witness.owner import lift, read_block
from dredge.gc.witness.ownership import Owner, Site, compare_ids, read_owner, replace_owner, write_id
from dredge.lakefs import LakeFS, LakeFSClient
from dredge.runs.payload import to_json
from dredge.storage import StorageOptions


def take_over(
    repository: str,
    why: str,
    who: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
) -> dict[str, Any]:
    """Make the server of the lakeFS connection the owner of a repository's namespace.

    Args:
        repository: name in lakeFS.
        why: the reason, in the person's words.
        who: None is the login name of this process.
        client: the server; None reads the environment.
        options: how the store is reached; None reads the environment.

    Returns:
        What was done, JSON: `repository`, `owner`, `before`, `has_id`, `statement`.

    Raises:
        ConfigError: there is no reason.
        LeaseHeldError: a run is at work.
        NotFoundError: there is no such repository.
    """
    with at_work(repository, why, OWN, client, options) as site:
        environment, before = site.client.environment(), read_owner(site.state)
        what = {"to": to_json(environment), "from": None if before is None else to_json(before.environment)}
        consent = record_consent(site.state, OWN, repository, why, what, who)
        replace_owner(site.state, Owner(environment=environment, since=consent.at))
        # Its id tells it from the owner before, whatever that one's server has.
        return _told(site, consent, before, has_id=write_id(site))


def add_alias(
    repository: str,
    why: str,
    who: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
) -> dict[str, Any]:
    """Note the URL of the lakeFS connection as another URL of the owner's server; arguments as for `take_over`.

    Raises:
        ConfigError: there is no reason, or no owner yet.
        RefusedError: it is not the same server: it lacks the id of the last mark, or is another installation.
        LeaseHeldError: a run is at work.
    """
    with at_work(repository, why, ALIAS, client, options) as site:
        environment, before = site.client.environment(), read_owner(site.state)
        if before is None:
            raise ConfigError(
                f"the namespace of {repository} has no owner yet: its first complete run makes its server the owner."
                " Nothing was changed."
            )
        owner = before.with_alias(environment.url)
        compared = compare_ids(site)
        if (
            not owner.includes(environment)
            or not compared.readable
            or compared.ids.find(compared.value) is None
        ):
            raise RefusedError(
                f"{environment.url} is not known to be the owner's server ({before.environment.url}): its repository"
                f" {repository} does not have the id of the last mark, or it is another installation. Nothing was"
                f" changed. If it takes over: `dredge gc own {repository} --reason …`."
            )
        consent = record_consent(site.state, ALIAS, repository, why, {"url": environment.url}, who)
        replace_owner(site.state, owner)
        return _told(site, consent, before, has_id=True)


def consent_without_id(
    repository: str,
    why: str,
    who: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
) -> dict[str, Any]:
    """Consent to deletions although lakeFS does not keep the id of the last mark; arguments as for `take_over`.

    Raises:
        ConfigError: there is no reason.
        RefusedError: another server owns the namespace.
        LeaseHeldError: a run is at work.
    """
    with at_work(repository, why, WITHOUT_ID, client, options) as site:
        before = demand_owner(site)
        what = {"url": site.client.environment().url}
        consent = record_consent(site.state, WITHOUT_ID, repository, why, what, who)
        return _told(site, consent, before, has_id=False)


def lift_block(
    repository: str,
    why: str,
    who: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
) -> dict[str, Any]:
    """Lift the block of a namespace, and leave a new id in the server: it is the right one as it is now. Arguments as
    for `take_over`.

    Raises:
        ConfigError: there is no reason, or no block.
        RefusedError: another server owns the namespace.
        LeaseHeldError: a run is at work.
    """
    with at_work(repository, why, "lift-block", client, options) as site:
        before = demand_owner(site)
        if read_block(site.state) is None:
            raise ConfigError(f"the namespace of {repository} is not blocked. Nothing was changed.")
        # First the id: after a kill in between the block is still in force.
        has_id = write_id(site)
        lifted = lift(site.state, repository, why, who)
        assert lifted is not None
        assert lifted.lifted is not None
        return _told(site, lifted.lifted, before, has_id) | {"block": to_json(replace(lifted, lifted=None))}


@contextmanager
def at_work(
    repository: str, why: str, what: str, client: LakeFS | None, options: StorageOptions | None
) -> Iterator[Site]:
    """Hold the lease of a repository while a person's statement is made.

    Args:
        repository: name in lakeFS.
        why: the reason, in the person's words.
        what: the statement, for the holder's name.
        client: the server; None reads the environment.
        options: how the store is reached; None reads the environment.

    Raises:
        ConfigError: there is no reason.
        LeaseHeldError: a run is at work.
        NotFoundError: there is no such repository.
    """
    check_reason(why)
    server = client or LakeFSClient.from_env()
    state = open_state(server.repository(repository).namespace, options)
    lease = make_lease(state, Safety().lease_seconds)
    grant = lease.acquire(f"dredge gc {what}")
    with lease.given_back(grant):
        yield Site(state, server, repository, "")


def demand_owner(site: Site) -> Owner | None:
    """Refuse a statement about a namespace through another server than its owner's; returns the owner.

    Raises:
        RefusedError: another server owns the namespace.
    """
    environment, owner = site.client.environment(), read_owner(site.state)
    if owner is not None and not owner.includes(environment):
        raise RefusedError(
            f"the namespace of {site.repository} is owned by {owner.environment.url}, and this is {environment.url}."
            " Nothing was changed. Use the owner's connection; if this server takes over:"
            f" `dredge gc own {site.repository} --reason …`."
        )
    return owner


def _told(site: Site, consent: Consent, before: Owner | None, has_id: bool) -> dict[str, Any]:
    owner = read_owner(site.state)
    return {
        "repository": site.repository,
        "owner": None if owner is None else to_json(owner),
        "before": None if before is None else to_json(before),
        "has_id": has_id,
        "statement": to_json(consent),
    }
