"""Statements of people about the owner and the block: `dredge gc own` and `dredge gc lift-block`.

Each statement holds the lease, so no run works meanwhile, and is kept with name, time and reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dredge.errors import ConfigError, RefusedError
from dredge.gc.config import Safety
from dredge.gc.run import make_lease, open_state
from dredge.gc.witness.owner import LIFT_BLOCK, lift, read_block
from dredge.gc.witness.ownership import (
    ALIAS,
    OWN,
    WITHOUT_ID,
    Owner,
    Site,
    compare_ids,
    read_owner,
    replace_owner,
    write_id,
)
from dredge.lakefs import LakeFSClient
from dredge.runs.consents import Consent, check_reason, record_consent
from dredge.runs.payload import to_json

type Statement = dict[str, Any]
"""The JSON of a statement: `repository`, `owner`, `before`, `has_id`, `statement`, and `block` if one was lifted."""


def take_over(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Make the server of the lakeFS connection the owner of a repository's namespace."""
    with hold_lease(repository, why, OWN, client) as site:
        environment, before = site.client.environment(), read_owner(site.state)
        what = {"to": to_json(environment), "from": None if before is None else to_json(before.environment)}
        consent = record_consent(site.state, OWN, repository, why, what, who)
        replace_owner(site.state, Owner(environment=environment, since=consent.at))
        # A new id distinguishes it from the owner before.
        return _result(site, consent, before, has_id=write_id(site))


def add_alias(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Record the URL of the lakeFS connection as another URL of the owner. Raises ConfigError: there is no owner yet;
    RefusedError: the server lacks the id of the last mark, or is another installation."""
    with hold_lease(repository, why, ALIAS, client) as site:
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
        return _result(site, consent, before, has_id=True)


def consent_without_id(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Consent to deletions through the owner's server without the id of the last mark."""
    with hold_lease(repository, why, WITHOUT_ID, client) as site:
        before = demand_owner(site)
        what = {"url": site.client.environment().url}
        consent = record_consent(site.state, WITHOUT_ID, repository, why, what, who)
        return _result(site, consent, before, has_id=False)


def lift_block(
    repository: str, why: str, who: str | None = None, client: LakeFSClient | None = None
) -> Statement:
    """Lift the block of a namespace and write a new id to the owner's server. Raises ConfigError: there is no block."""
    with hold_lease(repository, why, LIFT_BLOCK, client) as site:
        before = demand_owner(site)
        if read_block(site.state) is None:
            raise ConfigError(f"the namespace of {repository} is not blocked. Nothing was changed.")
        # The id first: after a kill in between, the block is still in force.
        has_id = write_id(site)
        lifted = lift(site.state, repository, why, who)
        assert lifted is not None
        assert lifted.lifted is not None
        return _result(site, lifted.lifted, before, has_id) | {"block": to_json(replace(lifted, lifted=None))}


@contextmanager
def hold_lease(repository: str, why: str, what: str, client: LakeFSClient | None) -> Iterator[Site]:
    """Hold the lease of a repository during a person's statement; the holder has the name of the command."""
    check_reason(why)
    server = client or LakeFSClient.from_env()
    state = open_state(server.repository(repository).namespace)
    lease = make_lease(state, Safety().lease_seconds)
    grant = lease.acquire(f"dredge gc {what}")
    with lease.given_back(grant):
        yield Site(state, server, repository, "")


def demand_owner(site: Site) -> Owner | None:
    """Refuse a statement through another server than the owner; return the owner."""
    environment, owner = site.client.environment(), read_owner(site.state)
    if owner is not None and not owner.includes(environment):
        raise RefusedError(
            f"the namespace of {site.repository} is owned by {owner.environment.url}, and this is {environment.url}."
            " Nothing was changed. Use the owner's connection; if this server takes over:"
            f" `dredge gc own {site.repository} --reason …`."
        )
    return owner


def _result(site: Site, consent: Consent, before: Owner | None, has_id: bool) -> Statement:
    owner = read_owner(site.state)
    return {
        "repository": site.repository,
        "owner": None if owner is None else to_json(owner),
        "before": None if before is None else to_json(before),
        "has_id": has_id,
        "statement": to_json(consent),
    }
