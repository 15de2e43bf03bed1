"""The owner of a namespace, and the id of the last complete mark.

    <state>/owner.json            the owner: the lakeFS server whose runs may delete in the namespace
    <state>/visitors/<id>.json    the last run of each other server
    <state>/mark_id.json          the last id, and the id being written
    lakeFS: repository metadata   `dredge.last_mark`

The first complete mark writes the owner. Only a person changes it later (`dredge gc own`). A server without the
namespace's last id has an older database (restored from a backup) or is a copy.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.errors import ConflictError, FormatError, UnavailableError
from dredge.gc.run import Run
from dredge.lakefs import Environment, LakeFSClient, Repository
from dredge.runs.conditional import read_tagged, replace_tagged, replaced_tag
from dredge.runs.payload import from_file, to_json
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
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

    def with_alias(self, url: str) -> Owner:
        """Return the same owner with another URL."""
        return replace(self, aliases=tuple(sorted({*self.aliases, url})))


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The last run of a server other than the owner."""

    environment: Environment
    repository: str
    run_id: str
    at: datetime
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Site:
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
    with suppress(ConflictError):  # another server was first, or the response to this request was lost
        state.put_if_absent(OWNER, _encode(owner))
    found = read_owner(state)
    if found is None:
        raise FormatError(f"{state.uri}/{OWNER} was written and is missing. Nothing was deleted.")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkId:
    """The id of a complete mark."""

    value: str  # the run id, so that a repeated step writes the same id
    run_id: str  # "" for the id of a command
    at: datetime  # by the store's clock


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkIds:
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


@dataclass(frozen=True, slots=True)
class Compared:
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
    """Write a new id to the namespace and the server. The caller holds the lease and has compared the ids; what is
    not given is read. Returns False if the user may not set metadata, or the server has no such call."""
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


def _encode(record: Owner | Visitor | MarkIds) -> bytes:
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
