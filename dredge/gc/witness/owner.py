"""The owner of a namespace, the id of the last complete mark, their checks, and the block.

    <state>/owner.json            the owner: the lakeFS server whose runs may delete in the namespace
    <state>/visitors/<id>.json    the last run of each other server
    <state>/mark_id.json          the last id, and the id being written
    lakeFS: repository metadata   `dredge.last_mark`

The first complete mark writes the owner. Only a person changes it later (`dredge gc own`). A server without the
namespace's last id has an older database (restored from a backup) or is a copy.

    the server is          marks                                         deletions, purges
    the owner, with id     leave a new id                                yes
    the owner, without it  refused, and the namespace is blocked         refused
    another server         leave no records; the owner's run warns       refused

    <state>/block.json     the newest block, in force or lifted

No run, purge or collection of metadata deletes in a blocked namespace. Only the owner's runs write a block: another
installation on the namespace must not stop the owner. Its key does not depend on the run root.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import (
    BlockedError,
    ConflictError,
    FormatError,
    RefusedError,
    UnavailableError,
    WitnessError,
)
from dredge.gc.run import Run
from dredge.lakefs import Environment, LakeFSClient, Repository
from dredge.lakefs.files.ranges import find_metarange_before
from dredge.runs.consents import Consent, read_consents, record_consent
from dredge.runs.payload import from_file, to_json
from dredge.runs.run import StepRecord
from dredge.runs.tries import read_tagged, replace_tagged, replaced_tag
from dredge.storage import ObjectReader, ObjectWriter, store_clock
from dredge.storage.parallel import at_once

OWNER = "owner.json"
VISITORS = "visitors"
MARK_ID = "mark_id.json"
KEY = "dredge.last_mark"
OWN, ALIAS, WITHOUT_ID = "own", "alias", "without-id"
"""Kinds of people's statements about the owner (`dredge.runs.consents`)."""
_FORMAT = 1
_TRIES = 3
_REMEDY = "Restore the file from a backup, or remove it and name the owner with `dredge gc own`."


class Owner(Struct, frozen=True, kw_only=True):
    """The owner of a namespace."""

    environment: Environment
    since: datetime  # by the store's clock
    run_id: str = ""  # the first run of the owner; "" after `dredge gc own`
    aliases: tuple[str, ...] = ()  # other URLs of the same server
    format: int = _FORMAT

    def includes(self, found: Environment) -> bool:
        """Whether a server is the owner: a known URL, and the same installation id if both have an id."""
        ids = {self.environment.installation_id, found.installation_id} - {None}
        return found.url in (self.environment.url, *self.aliases) and len(ids) < 2


class Visitor(Struct, frozen=True, kw_only=True):
    """The last run of a server other than the owner."""

    environment: Environment
    repository: str
    run_id: str
    at: datetime
    dry_run: bool


class Site(Struct, frozen=True):
    """A namespace and the lakeFS server of a run."""

    state: ObjectWriter  # the folder of lease and index
    client: LakeFSClient
    repository: str
    run_id: str
    clock: Callable[[], datetime] | None = None  # the store's; None asks the store each time

    @classmethod
    def of_run(cls, run: Run) -> Site:
        """Return the site of a collection's run."""
        return cls(run.state, run.client, run.plan.repository, run.plan.run_id, run.store_now)

    def now(self) -> datetime:
        """Return the store's time."""
        return store_clock(self.state, "") if self.clock is None else self.clock()


def read_owner(state: ObjectReader) -> Owner | None:
    """Read the owner; None before the first complete mark."""
    return _read_owner(state)[1]


def claim(state: ObjectWriter, owner: Owner) -> Owner:
    """Write the owner of a namespace without an owner; return the namespace's owner."""
    try:
        state.put_if_absent(OWNER, _encode(owner))
    except ConflictError:  # another server was first, or the response to this request was lost
        found = read_owner(state)
    else:
        return owner
    if found is None:
        raise FormatError(
            f"{state.uri}/{OWNER} is missing after its write. Nothing was deleted. Start a new run."
        )
    return found


def replace_owner(state: ObjectWriter, owner: Owner) -> None:
    """Replace the owner."""
    etag, _ = _read_owner(state)
    if not replace_tagged(state, OWNER, _encode(owner), etag) and read_owner(state) != owner:
        raise ConflictError(f"{state.uri}/{OWNER} was changed at the same moment. Give the command again.")


def note_visitor(site: Site, environment: Environment, dry_run: bool) -> None:
    """Write a visitor's record for the owner's next run."""
    found = Visitor(
        environment=environment,
        repository=site.repository,
        run_id=site.run_id,
        at=site.now(),
        dry_run=dry_run,
    )
    name = hashlib.sha256(f"{environment.url} {environment.installation_id}".encode()).hexdigest()[:16]
    site.state.put(f"{VISITORS}/{name}.json", _encode(found))


def read_visitors(state: ObjectReader) -> list[Visitor]:
    """Read the last run of each server that was not the owner, oldest first."""
    names = [item.key for item in state.list_level(f"{VISITORS}/").objects]
    found = [read_json_record(Visitor, state, name, _REMEDY)[1] for name in names]
    return sorted((visitor for visitor in found if visitor), key=lambda visitor: visitor.at)


class MarkId(Struct, frozen=True, kw_only=True):
    """The id of a complete mark."""

    value: str  # the run id, so that a repeated step writes the same id
    run_id: str  # "" for the id of a command
    at: datetime  # by the store's clock


class MarkIds(Struct, frozen=True, kw_only=True):
    """The ids of a namespace."""

    last: MarkId | None = None  # the last id kept by the server; None before the first
    intent: MarkId | None = None  # the id being written, or None
    # creation date of the repository with the id; None if the server does not return it
    repository_created_at: datetime | None = None
    format: int = _FORMAT

    def find(self, value: str | None) -> MarkId | None:
        """Return the id with a value, or None."""
        return next((item for item in (self.last, self.intent) if item and item.value == value), None)

    @property
    def is_unconfirmed(self) -> bool:
        """Whether an id was written to the namespace and the server never had an id."""
        return self.last is None and self.intent is not None

    def passes(self, value: str | None) -> bool:
        """Whether a server with this id (None: without an id) is the server of the last mark."""
        if self.last is None:
            # While the first id is written, the server has none yet or this one.
            return self.intent is None or value in (None, self.intent.value)
        return self.find(value) is not None


class Compared(Struct, frozen=True):
    """The ids of namespace and server."""

    ids: MarkIds
    value: str | None  # the server's id, or None
    readable: bool  # whether the server returned its metadata
    etag: str | None = None  # ETag of the namespace's record, or None

    @property
    def passes(self) -> bool:
        """Whether the server is the server of the last mark."""
        # Without metadata there is no comparison; deleting then needs a person's consent.
        return not self.readable or self.ids.passes(self.value)


def compare_ids(site: Site) -> Compared:
    """Read the ids of namespace and server."""
    with at_once() as ask:
        values_read = ask(site.client.metadata, site.repository)
        etag, ids = _read_ids(site.state)
    values = values_read.result()
    return Compared(ids, None if values is None else values.get(KEY), values is not None, etag)


def read_ids(state: ObjectReader) -> MarkIds:
    """Read the ids of a namespace."""
    return _read_ids(state)[1]


def write_id(site: Site, compared: Compared | None = None, repository: Repository | None = None) -> bool:
    """Write a new id to the namespace and the server. The caller holds the lease and has compared the ids. Arguments
    that are not given are read. Returns False if the user may not set metadata, or the server has no such call."""
    compared = compared or compare_ids(site)
    created_at = (repository or site.client.repository(site.repository)).created_at
    value = site.run_id or f"command-{uuid.uuid4().hex}"
    new = MarkId(value=value, run_id=site.run_id, at=site.now())
    # Intent, server, confirmation: after a kill at any step the server has one of the namespace's two ids. The id of
    # another server is not kept.
    last = compared.ids.find(compared.value) if compared.readable else compared.ids.last
    etag = _replace(site, MarkIds(last=last, intent=new, repository_created_at=created_at), compared.etag)
    if not _set(site, new.value):
        return False
    _replace(site, MarkIds(last=new, repository_created_at=created_at), etag)
    return True


def _set(site: Site, value: str) -> bool:
    # The key is overwritten and never deleted: without any metadata key, an import ends the server's process.
    for _ in range(_TRIES):
        if not site.client.set_metadata(site.repository, {KEY: value}):
            return False
        values = site.client.metadata(site.repository)
        # Not every 204 comes from lakeFS, and another writer may have overwritten the id.
        if values is None or values.get(KEY) == value:
            return True
    raise UnavailableError(
        f"the metadata of {site.repository} in lakeFS does not have {KEY} = {value!r} although it was set {_TRIES}"
        " times. Nothing was deleted. Check the proxies in front of lakeFS, then try again."
    )


def _replace(site: Site, ids: MarkIds, etag: str | None) -> str | None:
    if tag := replaced_tag(site.state, MARK_ID, _encode(ids), etag):
        return tag
    found, now = _read_ids(site.state)
    if now != ids:
        raise ConflictError(
            f"{site.state.uri}/{MARK_ID} was changed by another process. Nothing was deleted. Start again after that"
            " process."
        )
    return found


def _encode(record: Owner | Visitor | MarkIds | Block) -> bytes:
    return json.dumps(to_json(record), indent=1, sort_keys=True).encode()


def _read_owner(state: ObjectReader) -> tuple[str | None, Owner | None]:
    return read_json_record(Owner, state, OWNER, _REMEDY)


def _read_ids(state: ObjectReader) -> tuple[str | None, MarkIds]:
    etag, found = read_json_record(MarkIds, state, MARK_ID, _REMEDY)
    return etag, found or MarkIds()


def read_json_record[T](
    kind: type[T], state: ObjectReader, key: str, remedy: str
) -> tuple[str | None, T | None]:
    """Read a record with its ETag; (None, None) without a record. `remedy` is a sentence about a damaged one."""
    tagged = read_tagged(state, key)
    if tagged is None:
        return None, None
    try:
        found = from_file(kind, json.loads(tagged[1]))
    except (ValueError, FormatError) as error:
        raise FormatError(f"{state.uri}/{key} is damaged ({error}). Nothing was deleted. {remedy}") from None
    if getattr(found, "format", _FORMAT) > _FORMAT:
        raise FormatError(
            f"{state.uri}/{key} was written by a newer version of Dredge. Nothing was deleted. Use that version."
        )
    return tagged[0], found


BLOCK = "block.json"
LIFT_BLOCK = "lift-block"
KIND = "mark_id"  # kind of the block after a missing id
PLANNED = "dredge.last_plan"  # key in the metadata of the repository: the last planned run with deletions
_LIFTING = "Lift the block with `dredge gc lift-block {repository} --reason …`."


class Block(Struct, frozen=True, kw_only=True):
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
    says what differs from which run, and lists likely causes with their remedies."""
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
        f" Likely causes: (1) lakeFS's database was restored from a backup: `dredge gc lost {name}` lists the lost"
        f" commits; restore them with `--apply`, or give them up with `dredge gc forget-lost {name}`; then lift the"
        " block. (2) A second installation, such as a copy of the database, uses this namespace under the same URL,"
        f" and {left_by} was a run of it: stop its Dredge, then lift the block from production. (3) This is the second"
        " installation: stop this Dredge, then lift the block from production. (4) The repository was deleted and"
        " created again on a namespace with older data."
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
