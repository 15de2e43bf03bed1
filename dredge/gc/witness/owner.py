"""One owner: the server whose runs may delete in a namespace, recognized by its URL and by the id of the last mark.

    the server is            marks                                    deletions, purges
    the owner, with the id   leave a new id                           yes
    the owner, without it    refused, and the namespace is blocked    refused
    another one              leave nothing; the owner is warned       refused

A server without the right to set metadata (`fs:UpdateRepository`), or without that call, has no id: a person consents
once to deletions without it (`dredge gc own REPOSITORY --without-id`).
"""

from __future__ import annotations

from dredge.errors import RefusedError, WitnessError
from dredge.gc.run import Run
from dredge.gc.witness.block import describe, read_block, refuse_blocked, refuse_site
from dredge.gc.witness.consents import WITHOUT_ID, read_consents
from dredge.gc.witness.mark_id import Compared, compare_ids, read_ids, write_id
from dredge.gc.witness.ownership import Owner, Site, claim, note_visitor, read_owner, read_visitors
from dredge.gc.witness.unnamed import list_tables, read_kinds
from dredge.lakefs import Environment
from dredge.lakefs.files.sstable import METARANGES
from dredge.runs.steps import StepRecord
from dredge.storage.parallel import at_once

KIND = "mark_id"
"""Kind of the block that a missing id leaves."""
PLANNED = "dredge.last_plan"
"""Key in the metadata of the repository: the last run that was planned to delete."""


def check_plan(site: Site, dry_run: bool) -> None:
    """Refuse to plan a deletion in a blocked namespace, or in one of another server; a dry run is only warned.

    Args:
        site: the namespace.
        dry_run: whether nothing is to be deleted.

    Raises:
        BlockedError: the namespace is blocked.
        WitnessError: another server owns it.
        RefusedError: the user may not set metadata, and no person consented to that.
        UnavailableError: no response from lakeFS.
    """
    if dry_run:
        return
    with at_once() as ask:
        ownership = ask(_demand_ownership, site)
        refuse_blocked(site.state)
    _, owner = ownership.result()
    # A missing right is known now, not after the whole mark.
    if not site.client.set_metadata(site.repository, {PLANNED: site.run_id}):
        _demand_consent(site, owner)


def check_before_deleting(site: Site) -> None:
    """Refuse to delete: the namespace was blocked, or is another server's, or the server is not the one that the last
    mark asked. The caller holds the lease.

    Raises:
        BlockedError: the namespace is blocked.
        WitnessError: the server is not the right one.
        RefusedError: the server has no id, and no person consented to that.
    """
    with at_once() as ask:
        ownership, ids = ask(_demand_ownership, site), ask(compare_ids, site)
        refuse_blocked(site.state)
    environment, owner = ownership.result()
    compared = ids.result()
    if not compared.passes:
        _refuse_id(site, environment, compared)
    if not compared.readable or compared.ids.is_unconfirmed:
        _demand_consent(site, owner)


def check_owner(run: Run, record: StepRecord) -> bool:
    """Check that a mark is the owner's.

    Args:
        run: this run.
        record: gets warnings.

    Returns:
        Whether the server owns the namespace, or no server does yet. Otherwise the mark leaves nothing, and is not
        compared with those of the owner.

    Raises:
        WitnessError: the run deletes, and its server is not the owner.
        BlockedError: the namespace is blocked, and the run deletes.
    """
    site, dry_run = Site.of_run(run), run.plan.dry_run
    with at_once() as ask:
        asked = ask(_environment_and_owner, site)
        if not dry_run:
            refuse_blocked(run.state)
        elif block := read_block(run.state):
            record.warn(f"a run that deletes would be refused: {describe(block)}")
    environment, owner = asked.result()
    if owner is not None and not owner.includes(environment):
        note_visitor(site, environment, dry_run)
        message = _not_owner(site, environment, owner)
        if not dry_run:
            raise WitnessError(f"{message} Nothing was deleted.")
        record.warn(f"{message} This dry run leaves no pending list, no commits and no id for later runs.")
        return False
    if owner is not None:
        _warn_of_visitors(site, owner, record)
    return True


def check_id(run: Run, read: Compared | None = None) -> Compared:
    """Check that the owner's server is the one that the last complete mark asked.

    Args:
        run: this run.
        read: the ids, if they were just read.

    Returns:
        The ids.

    Raises:
        WitnessError: it lacks the id of the last mark.
        UnavailableError: no response from lakeFS.
    """
    site = Site.of_run(run)
    compared = read or compare_ids(site)
    if not compared.passes and not _is_new_repository(run, compared):
        _refuse_id(site, site.client.environment(), compared)
    return compared


def keeps_id(site: Site) -> bool:
    """Whether the server keeps the id of the last mark; a first mark does not know yet, and has nothing to delete."""
    compared = compare_ids(site)
    return compared.readable and not compared.ids.is_unconfirmed


def claim_namespace(run: Run) -> bool:
    """Make the server of a complete mark the owner if the namespace has none.

    Returns:
        Whether it is the owner now. Otherwise the mark leaves nothing.

    Raises:
        WitnessError: the run deletes, and its server is not the owner.
    """
    site = Site.of_run(run)
    environment, owner = _environment_and_owner(site)
    if owner is None:
        since = run.store_now()
        owner = claim(run.state, Owner(environment=environment, since=since, run_id=run.plan.run_id))
    if not owner.includes(environment) and not run.plan.dry_run:
        _demand_ownership(site)
    return owner.includes(environment)


def leave_id(run: Run, record: StepRecord) -> None:
    """Leave the id of a complete mark in the namespace and in the server. The namespace is the server's.

    Args:
        run: this run.
        record: gets warnings.

    Raises:
        WitnessError: the server lacks the id of the last mark.
        RefusedError: the user may not set metadata, the run deletes, and no person consented to that.
        UnavailableError: the server did not keep the id.
    """
    site = Site.of_run(run)
    if write_id(site, check_id(run)):
        return
    owner = read_owner(run.state)
    if has_consent(site, owner):
        record.warn(
            f"the mark has left no id in lakeFS: {_MISSING_RIGHT} A person consented to deletions without it."
        )
    elif run.plan.dry_run:
        record.warn(f"a run that deletes would be refused: {_without_id(run.plan.repository)}")
    else:
        _demand_consent(site, owner)


def has_consent(site: Site, owner: Owner | None) -> bool:
    """Whether a person consented to deletions without an id in the server, under one of the owner's URLs."""
    environment = site.client.environment()
    urls = {environment.url} if owner is None else {owner.environment.url, *owner.aliases}
    return any(consent.what.get("url") in urls for consent in read_consents(site.state, WITHOUT_ID))


def _environment_and_owner(site: Site) -> tuple[Environment, Owner | None]:
    with at_once() as ask:
        environment = ask(site.client.environment)
        owner = read_owner(site.state)
    return environment.result(), owner


def _demand_ownership(site: Site) -> tuple[Environment, Owner | None]:
    environment, owner = _environment_and_owner(site)
    if owner is not None and not owner.includes(environment):
        note_visitor(site, environment, dry_run=False)
        raise WitnessError(f"{_not_owner(site, environment, owner)} Nothing was deleted.")
    return environment, owner


def _demand_consent(site: Site, owner: Owner | None) -> None:
    if not has_consent(site, owner):
        raise RefusedError(f"{_without_id(site.repository)} Nothing was deleted.")


def _is_new_repository(run: Run, compared: Compared) -> bool:
    """Whether the repository was created again, on a namespace without metaranges of the one before: it starts anew."""
    created_at = run.client.repository(run.plan.repository).created_at
    before = compared.ids.repository_created_at
    if created_at is None or before is None or created_at <= before:
        return False
    older = [info for info in list_tables(run.reader).values() if info.last_modified < created_at]
    return METARANGES not in read_kinds(run.reader, older).values()


def _refuse_id(site: Site, environment: Environment, compared: Compared) -> None:
    last = compared.ids.last or compared.ids.intent
    if last is None:
        return
    left_by = f"run {last.run_id}" if last.run_id else "a command"
    has = f"has the id {compared.value!r}" if compared.value else "has no id"
    name = site.repository
    message = (
        f"{environment.url} is not the server that the last complete mark asked: {left_by} left the id {last.value!r}"
        f" in the namespace and in the metadata of {name} at {last.at:%Y-%m-%d %H:%M} UTC, and the repository now"
        f" {has}. Likely causes: (1) lakeFS's database was restored from a backup: `dredge gc lost {name}` lists the"
        " commits that were lost; make them known again with `--apply`, or give them up with `dredge gc forget-lost"
        f" {name}`; then lift the block. (2) A second installation, such as a copy of the database, works on this"
        f" namespace under the same URL, and {left_by} was its: stop its Dredge, then lift the block from production."
        " (3) This is the second installation: stop this Dredge, then lift the block from production. (4) The"
        " repository was deleted and created again on a namespace with older data."
    )
    facts = {
        "expected": last.value,
        "found": compared.value,
        "left_by": last.run_id,
        "left_at": last.at.isoformat(),
        "server": environment.url,
    }
    refuse_site(site, KIND, message, facts)


def _not_owner(site: Site, environment: Environment, owner: Owner) -> str:
    since = f"{owner.since:%Y-%m-%d}"
    same_url = owner.environment.url == environment.url or environment.url in owner.aliases
    told = "another installation under the same URL" if same_url else owner.environment.url
    name = site.repository
    return (
        f"the namespace of {name} is owned by {told} since {since}, and this run asks {environment.url}. Only the"
        " owner's runs may delete: what is live in one installation may be unknown to the other. If the server has"
        f" moved, or this one takes over: `dredge gc own {name} --reason …`. If {environment.url} is another URL of the"
        f" same server: `dredge gc own {name} --alias --reason …`. If this is a copy, such as a rehearsal or a staging"
        " installation, stop its schedule."
    )


_MISSING_RIGHT = (
    "the user may not set metadata of the repository (fs:UpdateRepository), or the server has no such call."
)


def _without_id(repository: str) -> str:
    return (
        f"{_MISSING_RIGHT} Without the id of the last mark, a copy or an older state of lakeFS's database is not"
        f" recognized. Grant fs:UpdateRepository on repository {repository} to the user of the lakeFS connection; or"
        f" consent once to deletions without it: `dredge gc own {repository} --without-id --reason …`."
    )


def _warn_of_visitors(site: Site, owner: Owner, record: StepRecord) -> None:
    last = read_ids(site.state).last
    since = owner.since if last is None else last.at
    for visitor in read_visitors(site.state, owner):
        if visitor.at < since:
            continue
        kind = "a dry run" if visitor.dry_run else "a run that was to delete, and was refused"
        record.warn(
            f"another installation, {visitor.environment.url}, works on this namespace: {kind} ({visitor.run_id}) of"
            f" {visitor.repository} at {visitor.at:%Y-%m-%d %H:%M} UTC. Its server does not know all that is live here:"
            " stop its Dredge, or give it a copy of the bucket."
        )
