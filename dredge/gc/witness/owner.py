"""Checks of the owner, and the block of a namespace.

    the server is          marks                                         deletions, purges
    the owner, with id     leave a new id                                yes
    the owner, without it  refused, and the namespace is blocked         refused
    another server         leave no records; the owner's run warns       refused

    <state>/block.json     the newest block, in force or lifted

No run, purge or collection of metadata deletes in a blocked namespace. Only the owner's runs write a block: another
installation on the namespace must not stop the owner. Its key does not depend on the run root.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NoReturn

from dredge.errors import BlockedError, ConflictError, RefusedError, WitnessError
from dredge.gc.run import Run
from dredge.gc.witness.ownership import (
    WITHOUT_ID,
    Compared,
    MarkId,
    Owner,
    Site,
    Visitor,
    claim,
    compare_ids,
    note_visitor,
    read_ids,
    read_json_record,
    read_owner,
    read_visitors,
    write_id,
)
from dredge.gc.witness.unnamed import find_metarange_before
from dredge.lakefs import Environment
from dredge.runs.conditional import replace_tagged
from dredge.runs.consents import Consent, read_consents, record_consent
from dredge.runs.payload import to_json
from dredge.runs.steps import StepRecord
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import at_once

BLOCK = "block.json"
LIFT_BLOCK = "lift-block"
KIND = "mark_id"
"""Kind of the block after a missing id."""
PLANNED = "dredge.last_plan"
"""Key in the metadata of the repository: the last planned run with deletions."""
_FORMAT = 1
_LIFTING = "Lift the block with `dredge gc lift-block {repository} --reason …`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a namespace after a refused mark."""

    kind: str  # of the refusal, such as `known_commits`
    message: str
    run_id: str  # the refused run
    repository: str
    server: str
    at: datetime  # by the store's clock
    facts: Mapping[str, Any] = field(default_factory=dict)  # figures and names for programs, JSON
    lifted: Consent | None = None  # the person's statement; None while the block is in force
    format: int = _FORMAT


def refuse(site: Site, kind: str, message: str, facts: Mapping[str, Any] | None = None) -> NoReturn:
    """Refuse a mark or a purge with WitnessError, and block the namespace unless another server owns it. The message
    has the difference, the run of the older record, likely causes, and the remedy of each."""
    environment = site.client.environment()
    owner = read_owner(site.state)
    if owner is not None and not owner.includes(environment):
        raise WitnessError(f"{message} Nothing was deleted.")
    block = Block(
        kind=kind,
        message=message,
        run_id=site.run_id,
        repository=site.repository,
        server=environment.url,
        at=site.now(),
        facts=dict(facts or {}),
    )
    _write_block(site.state, block)
    lifting = _LIFTING.format(repository=site.repository)
    raise WitnessError(
        f"{message} Nothing was deleted. The namespace is blocked: no run deletes there. {lifting}"
    )


def read_block(state: ObjectReader) -> Block | None:
    """Read the block in force, or None."""
    return _in_force(_read_block(state)[1])


def refuse_blocked(state: ObjectReader) -> None:
    """Refuse to delete in a blocked namespace."""
    _refuse_block(read_block(state))


def _refuse_block(block: Block | None) -> None:
    if block is not None:
        raise BlockedError(f"{describe(block)} Nothing (more) was deleted.")


def describe(block: Block) -> str:
    """Describe a block in force and the way to lift it."""
    return (
        f"run {block.run_id} blocked the namespace of {block.repository} at {block.at:%Y-%m-%d %H:%M} UTC"
        f" ({block.kind}): {block.message} {_LIFTING.format(repository=block.repository)}"
    )


def lift(state: ObjectWriter, repository: str, why: str, who: str | None = None) -> Block | None:
    """Lift the block in force and keep it with the reason; None without one. The caller holds the lease. Raises
    ConflictError: another process changed the block at the same moment."""
    etag, found = _read_block(state)
    if found is None or found.lifted is not None:
        return None
    consent = record_consent(state, LIFT_BLOCK, repository, why, to_json(found), who)
    lifted = replace(found, lifted=consent)
    if not replace_tagged(state, BLOCK, _encode(lifted), etag) and read_block(state) is not None:
        raise ConflictError(f"{state.uri}/{BLOCK} was changed at the same moment. Give the command again.")
    return lifted


def _write_block(state: ObjectWriter, block: Block) -> None:
    etag, found = _read_block(state)
    if _in_force(found) is not None:
        return  # a person finds the cause of the first block first
    if not replace_tagged(state, BLOCK, _encode(block), etag) and read_block(state) is None:
        raise ConflictError(f"{state.uri}/{BLOCK} was changed at the same moment. Nothing was deleted.")


def _in_force(block: Block | None) -> Block | None:
    return block if block is not None and block.lifted is None else None


def _encode(block: Block) -> bytes:
    return json.dumps(to_json(block), indent=1, sort_keys=True).encode()


def _read_block(state: ObjectReader) -> tuple[str | None, Block | None]:
    remedy = "Find the cause of the block in the reports of the last runs, then remove the file."
    return read_json_record(Block, state, BLOCK, remedy)


def check_plan(
    site: Site, read: Callable[[], tuple[Environment, Owner | None]], read_block: Callable[[], Block | None]
) -> None:
    """Refuse to plan deletions in a blocked namespace or in one of another server."""
    _refuse_block(read_block())
    environment, owner = read()
    _demand_owner(site, environment, owner)
    # A missing right is known now, and not after the whole mark.
    if not site.client.set_metadata(site.repository, {PLANNED: site.run_id}):
        _demand_consent(site, owner)


def check_before_deleting(site: Site) -> None:
    """Refuse to delete in a blocked namespace, or through another server than the last mark's.

    The caller holds the lease.
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
    """Return whether the server of a mark owns the namespace, or there is no owner yet. The mark of another server
    leaves no records and is not compared with the owner's marks."""
    site, dry_run = Site.of_run(run), run.plan.dry_run
    with at_once() as ask:
        asked = ask(read_environment_and_owner, site)
        ids, visitors = ask(read_ids, site.state), ask(read_visitors, site.state)
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
        _warn_of_visitors(visitors.result(), ids.result().last, owner, record)
    return True


def check_id(run: Run, compared: Compared) -> None:
    """Check that the owner's server is the server of the last complete mark."""
    site = Site.of_run(run)
    if not compared.passes and not _is_new_repository(run, compared):
        _refuse_id(site, site.client.environment(), compared)


def keeps_id(site: Site) -> bool:
    """Whether the server keeps the id of the last mark. True before the first mark."""
    compared = compare_ids(site)
    return compared.readable and not compared.ids.is_unconfirmed


def claim_namespace(run: Run, read: tuple[Environment, Owner | None]) -> bool:
    """Make the server of a complete mark the owner of a namespace without one; return whether it is the owner now.
    The mark of another server leaves no records. `read` is the result of `read_environment_and_owner`."""
    site = Site.of_run(run)
    environment, owner = read
    if owner is None:
        since = run.store_now()
        owner = claim(run.state, Owner(environment=environment, since=since, run_id=run.plan.run_id))
    if not owner.includes(environment) and not run.plan.dry_run:
        _demand_ownership(site)
    return owner.includes(environment)


def leave_id(run: Run, record: StepRecord) -> None:
    """Write the id of a complete mark of the owner to the namespace and the server."""
    site = Site.of_run(run)
    with at_once() as ask:
        repository = ask(site.client.repository, site.repository)
        right = ask(run.check_right, run.store_now())  # a later try may have left its id
        compared = compare_ids(site)
    right.result()
    check_id(run, compared)
    if write_id(site, compared, repository.result()):
        return
    owner = read_owner(run.state)
    if has_consent(site, owner):
        record.warn(f"no id was left in lakeFS: {_MISSING_RIGHT} A person consented to deletions without it.")
    elif run.plan.dry_run:
        record.warn(f"a run that deletes would be refused: {_without_id(run.plan.repository)}")
    else:
        _demand_consent(site, owner)


def has_consent(site: Site, owner: Owner | None) -> bool:
    """Whether a person consented to deletions without an id, under one of the owner's URLs."""
    environment = site.client.environment()
    urls = {environment.url} if owner is None else {owner.environment.url, *owner.aliases}
    return any(consent.what.get("url") in urls for consent in read_consents(site.state, WITHOUT_ID))


def read_environment_and_owner(site: Site) -> tuple[Environment, Owner | None]:
    """Read the server's environment and the owner of the namespace; None without an owner."""
    with at_once() as ask:
        environment = ask(site.client.environment)
        owner = read_owner(site.state)
    return environment.result(), owner


def _demand_ownership(site: Site) -> tuple[Environment, Owner | None]:
    environment, owner = read_environment_and_owner(site)
    _demand_owner(site, environment, owner)
    return environment, owner


def _demand_owner(site: Site, environment: Environment, owner: Owner | None) -> None:
    if owner is not None and not owner.includes(environment):
        note_visitor(site, environment, dry_run=False)
        raise WitnessError(f"{_not_owner(site, environment, owner)} Nothing was deleted.")


def _demand_consent(site: Site, owner: Owner | None) -> None:
    if not has_consent(site, owner):
        raise RefusedError(f"{_without_id(site.repository)} Nothing was deleted.")


def _is_new_repository(run: Run, compared: Compared) -> bool:
    """Whether the repository was created again on a namespace without metaranges of the one before."""
    created_at = run.client.repository(run.plan.repository).created_at
    before = compared.ids.repository_created_at
    if created_at is None or before is None or created_at <= before:
        return False
    return find_metarange_before(run.reader, created_at) is None


def _refuse_id(site: Site, environment: Environment, compared: Compared) -> None:
    last = compared.ids.last or compared.ids.intent
    if last is None:
        return
    left_by = f"run {last.run_id}" if last.run_id else "a command"
    has = f"has the id {compared.value!r}" if compared.value else "has no id"
    name = site.repository
    message = (
        f"{environment.url} is not the server of the last complete mark: {left_by} left the id {last.value!r} in the"
        f" namespace and in the metadata of {name} at {last.at:%Y-%m-%d %H:%M} UTC, and the repository now {has}."
        " Likely causes: (1) lakeFS's database was restored from a backup: `dredge gc lost"
        f" {name}` lists the lost commits; restore them with `--apply`, or give them up with `dredge gc forget-lost"
        f" {name}`; then lift the block. (2) A second installation, such as a copy of the database, uses this"
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
    refuse(site, KIND, message, facts)


def _not_owner(site: Site, environment: Environment, owner: Owner) -> str:
    same_url = environment.url in (owner.environment.url, *owner.aliases)
    owner_text = "another installation under the same URL" if same_url else owner.environment.url
    name = site.repository
    return (
        f"the namespace of {name} is owned by {owner_text} since {owner.since:%Y-%m-%d}, and this run asks"
        f" {environment.url}. Only the owner's runs may delete: objects live in one installation may be unknown to the"
        f" other. If the server has moved, or this one takes over: `dredge gc own {name} --reason …`. If"
        f" {environment.url} is another URL of the same server: `dredge gc own {name} --alias --reason …`. If this is a"
        " copy, such as a rehearsal or a staging installation, stop its schedule."
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


def _warn_of_visitors(
    visitors: Iterable[Visitor], last: MarkId | None, owner: Owner, record: StepRecord
) -> None:
    since = owner.since if last is None else last.at
    for visitor in visitors:
        if owner.includes(visitor.environment) or visitor.at < since:
            continue
        kind = "a dry run" if visitor.dry_run else "a refused run with deletions"
        record.warn(
            f"another installation, {visitor.environment.url}, works on this namespace: {kind} ({visitor.run_id}) of"
            f" {visitor.repository} at {visitor.at:%Y-%m-%d %H:%M} UTC. Its server does not know all live objects:"
            " stop its Dredge, or give it a copy of the bucket."
        )
