"""The id of the last complete mark, in the namespace and in the repository's metadata in lakeFS.

    <state>/mark_id.json                      the last id, and the one that is being written
    lakeFS: metadata of the repository        `dredge.last_mark`

A server whose repository lacks the namespace's last id is an older one (restored from a backup) or another one (a
copy). The order of writing is intent in the namespace, server, confirmation in the namespace: after a kill at any
step the server has one of the two ids of the namespace. The key is overwritten and never deleted: after the last key
of the metadata is deleted, a later import ends the server's process.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import ConflictError, FormatError, UnavailableError
from dredge.gc.witness.ownership import Site
from dredge.runs.conditional import read_tagged, replaced_tag
from dredge.runs.payload import from_file, to_json
from dredge.storage import ObjectReader
from dredge.storage.parallel import at_once

MARK_ID = "mark_id.json"
KEY = "dredge.last_mark"
_FORMAT = 1
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
        etag, ids = _read_tagged(site.state)
    values = values_read.result()
    return Compared(ids, None if values is None else values.get(KEY), values is not None, etag)


def read_ids(state: ObjectReader) -> MarkIds:
    """Read the ids of a namespace; empty ones if there are none.

    Raises:
        FormatError: the record is damaged, or a newer version wrote it.
    """
    return _read_tagged(state)[1]


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
    found, now = _read_tagged(site.state)
    if now != ids:
        raise ConflictError(
            f"{site.state.uri}/{MARK_ID} was changed by another process. Nothing was deleted. Start again when it has"
            " ended."
        )
    return found


def _read_tagged(state: ObjectReader) -> tuple[str | None, MarkIds]:
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
