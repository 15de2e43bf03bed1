"""The owner of a namespace: the environment (a lakeFS server) whose runs may delete there.

    <state>/owner.json            the owner
    <state>/visitors/<id>.json    the last run of each other server

The first complete mark in a namespace writes the owner; after that only a person changes it (`dredge gc own`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.errors import ConflictError, FormatError, UnavailableError
from dredge.gc.run import Run
from dredge.lakefs import Environment, LakeFS
from dredge.runs.conditional import read_tagged, replace_tagged, replaced_tag
from dredge.runs.payload import from_file, to_json
from dredge.storage import ObjectReader, ObjectWriter, store_clock
from dredge.storage.parallel import at_once

OWNER = "owner.json"
VISITORS = "visitors"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of a namespace; a payload.

    Attributes:
        environment: the server.
        aliases: other URLs of the same server.
        since: when it became the owner, by the store's clock.
        run_id: the run that made it the owner; "" where a person did.
        format: of this record.
    """

    environment: Environment
    since: datetime
    run_id: str = ""
    aliases: tuple[str, ...] = ()
    format: int = _FORMAT

    def includes(self, found: Environment) -> bool:
        """Whether a server is the owner: one of its URLs, and no other installation id where both have one."""
        ids = {self.environment.installation_id, found.installation_id} - {None}
        return found.url in (self.environment.url, *self.aliases) and len(ids) < 2

    def with_alias(self, url: str) -> Owner:
        """The same owner with another URL."""
        return replace(self, aliases=tuple(sorted({*self.aliases, url})))


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The last run of a server that does not own the namespace; a payload.

    Attributes:
        environment: the server.
        repository: name in that server.
        run_id: of the run.
        at: by the store's clock.
        dry_run: whether it was a dry run.
    """

    environment: Environment
    repository: str
    run_id: str
    at: datetime
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Site:
    """A namespace and the server through which a run works on it.

    Attributes:
        state: on the folder of lease and index.
        client: the server.
        repository: name in that server.
        run_id: of the run.
    """

    state: ObjectWriter
    client: LakeFS
    repository: str
    run_id: str

    @classmethod
    def of_run(cls, run: Run) -> Site:
        """The site of a collection's run."""
        return cls(run.state, run.client, run.plan.repository, run.plan.run_id)

    def now(self) -> datetime:
        """The store's time."""
        return store_clock(self.state, "")


def read_owner(state: ObjectReader) -> Owner | None:
    """Read the owner of a namespace; None if there is none yet.

    Raises:
        FormatError: the record is damaged, or a newer version wrote it.
    """
    return _read_owner(state)[1]


def claim(state: ObjectWriter, owner: Owner) -> Owner:
    """Make an environment the owner if the namespace has none; returns the owner then."""
    with suppress(ConflictError):  # another server was first, or the response to this request was lost
        state.put_if_absent(OWNER, _encode(owner))
    found = read_owner(state)
    if found is None:
        raise FormatError(f"{state.uri}/{OWNER} was written and is not there. Nothing was deleted.")
    return found


def replace_owner(state: ObjectWriter, owner: Owner) -> None:
    """Replace the owner, whoever it is.

    Raises:
        ConflictError: another process replaced it at the same moment.
    """
    etag, _ = _read_owner(state)
    if not replace_tagged(state, OWNER, _encode(owner), etag) and read_owner(state) != owner:
        raise ConflictError(f"{state.uri}/{OWNER} was changed at the same moment. Give the command again.")


def note_visitor(site: Site, environment: Environment, dry_run: bool) -> None:
    """Note the run of a server that does not own the namespace, for the owner's next run."""
    found = Visitor(
        environment=environment,
        repository=site.repository,
        run_id=site.run_id,
        at=site.now(),
        dry_run=dry_run,
    )
    name = hashlib.sha256(f"{environment.url} {environment.installation_id}".encode()).hexdigest()[:16]
    data = json.dumps(to_json(found), indent=1, sort_keys=True).encode()
    site.state.put(f"{VISITORS}/{name}.json", data)


def read_visitors(state: ObjectReader, owner: Owner) -> list[Visitor]:
    """Read the last run of each server other than the owner, the oldest first.

    Raises:
        FormatError: a record is damaged.
    """
    names = [item.key for item in state.list_level(f"{VISITORS}/").objects]
    found = [_parse(Visitor, state, name, state.get(name)) for name in names]
    others = [visitor for visitor in found if not owner.includes(visitor.environment)]
    return sorted(others, key=lambda visitor: visitor.at)


def _encode(owner: Owner) -> bytes:
    return json.dumps(to_json(owner), indent=1, sort_keys=True).encode()


def _read_owner(state: ObjectReader) -> tuple[str | None, Owner | None]:
    tagged = read_tagged(state, OWNER)
    if tagged is None:
        return None, None
    found = _parse(Owner, state, OWNER, tagged[1])
    if found.format > _FORMAT:
        raise FormatError(
            f"{state.uri}/{OWNER} is of a newer version of Dredge: use that one. Nothing was deleted."
        )
    return tagged[0], found


def _parse[T](kind: type[T], state: ObjectReader, name: str, data: bytes) -> T:
    try:
        return from_file(kind, json.loads(data))
    except (ValueError, FormatError) as error:
        raise FormatError(
            f"{state.uri}/{name} is damaged ({error}). Nothing was deleted. Restore the file from a backup, or remove"
            " it and say with `dredge gc own` which server owns the namespace."
        ) from None


MARK_ID = "mark_id.json"
KEY = "dredge.last_mark"
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkId:
    """The id of a complete mark; a payload.

    Attributes:
        value: the id: that of the run, so that a step that is done again leaves the same one.
        run_id: the run that left it; "" where a command did.
        at: by the store's clock.
    """

    value: str
    run_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkIds:
    """What the namespace has; a payload.

    Attributes:
        last: the last id that the server had; None if it never had one.
        intent: the id that is being written; None otherwise.
        repository_created_at: creation date of the repository that has the id; None if the server does not return it.
        format: of this record.
    """

    last: MarkId | None = None
    intent: MarkId | None = None
    repository_created_at: datetime | None = None
    format: int = _FORMAT

    def find(self, value: str | None) -> MarkId | None:
        """Return the id with a value; None without one."""
        return next((item for item in (self.last, self.intent) if item and item.value == value), None)

    @property
    def is_unconfirmed(self) -> bool:
        """Whether an id was to be written and the server never had one."""
        return self.last is None and self.intent is not None

    def passes(self, value: str | None) -> bool:
        """Whether a server with this value (None: without an id) is the one that the last mark asked."""
        if self.last is None:
            # Before the first id nothing is known. While it is written, the server has none yet or this one.
            return self.intent is None or value in (None, self.intent.value)
        return self.find(value) is not None


@dataclass(frozen=True, slots=True)
class Compared:
    """The ids of namespace and server.

    Attributes:
        ids: the namespace's.
        value: the server's; None without one.
        readable: whether the server returned its metadata.
        etag: of the namespace's record; None without one.
    """

    ids: MarkIds
    value: str | None
    readable: bool
    etag: str | None = None

    @property
    def passes(self) -> bool:
        """Whether the server is the one that the last mark asked. A server that does not return metadata cannot be
        compared and passes: deleting there needs a person's consent."""
        return not self.readable or self.ids.passes(self.value)


def compare_ids(site: Site) -> Compared:
    """Compare the id of the namespace with the server's.

    Raises:
        FormatError: the namespace's record is damaged, or a newer version wrote it.
        UnavailableError: no response from lakeFS.
    """
    with at_once() as ask:
        values_read = ask(site.client.metadata, site.repository)
        etag, ids = _read_ids(site.state)
    values = values_read.result()
    return Compared(ids, None if values is None else values.get(KEY), values is not None, etag)


def read_ids(state: ObjectReader) -> MarkIds:
    """Read the ids of a namespace; empty ones if there are none.

    Raises:
        FormatError: the record is damaged, or a newer version wrote it.
    """
    return _read_ids(state)[1]


def write_id(site: Site, compared: Compared | None = None) -> bool:
    """Leave a new id in the namespace and in the server. The caller holds the lease and has compared ids, or a person
    said that this server is the right one.

    Args:
        site: the namespace.
        compared: the ids that are there, if they were just read.

    Returns:
        False if the user has no right to set metadata, or the server has no such call. The server then has no new id.

    Raises:
        ConflictError: another process changed the namespace's record meanwhile.
        UnavailableError: the server did not keep the id.
    """
    with at_once() as ask:
        repository = ask(site.client.repository, site.repository)
        compared = compared or compare_ids(site)
    created_at = repository.result().created_at
    value = site.run_id or f"command-{uuid.uuid4().hex}"
    new = MarkId(value=value, run_id=site.run_id, at=site.now())
    # What the server has passes until it has the new one. Of another server nothing passes.
    last = compared.ids.find(compared.value) if compared.readable else compared.ids.last
    etag = _replace(site, MarkIds(last=last, intent=new, repository_created_at=created_at), compared.etag)
    if not _set(site, new.value):
        return False
    _replace(site, MarkIds(last=new, repository_created_at=created_at), etag)
    return True


def _set(site: Site, value: str) -> bool:
    for _ in range(_TRIES):
        if not site.client.set_metadata(site.repository, {KEY: value}):
            return False
        values = site.client.metadata(site.repository)
        # Not all that answers 204 is lakeFS, and another writer may have replaced what it read before.
        if values is None or values.get(KEY) == value:
            return True
    raise UnavailableError(
        f"the metadata of {site.repository} in lakeFS does not have {KEY} = {value!r} although it was set {_TRIES}"
        " times. Nothing was deleted. Check that nothing in front of lakeFS answers for it; try again later."
    )


def _replace(site: Site, ids: MarkIds, etag: str | None) -> str | None:
    data = json.dumps(to_json(ids), indent=1, sort_keys=True).encode()
    if tag := replaced_tag(site.state, MARK_ID, data, etag):
        return tag
    found, now = _read_ids(site.state)
    if now != ids:
        raise ConflictError(
            f"{site.state.uri}/{MARK_ID} was changed by another process. Nothing was deleted. Start again when it has"
            " ended."
        )
    return found


def _read_ids(state: ObjectReader) -> tuple[str | None, MarkIds]:
    tagged = read_tagged(state, MARK_ID)
    if tagged is None:
        return None, MarkIds()
    try:
        found = from_file(MarkIds, json.loads(tagged[1]))
    except (ValueError, FormatError) as error:
        raise FormatError(
            f"{state.uri}/{MARK_ID} is damaged ({error}). Nothing was deleted. Restore the file, such as an older"
            " version of it, and give `dredge gc own`."
        ) from None
    if found.format > _FORMAT:
        raise FormatError(
            f"{state.uri}/{MARK_ID} is of a newer version of Dredge: use that one. Nothing was deleted."
        )
    return tagged[0], found
