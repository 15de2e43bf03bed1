"""The past of a repository: the record of the last complete mark, the operations log, and refs from before an upgrade.

`_dredge/known.parquet` is the record of a complete mark for the next one, replaced by a conditional write.
Rows: reachable snapshots, and those with a file, each with the parents in all marks. Metadata of the file: a JSON
object with the other fields of `Known`.

If the store's time of the file is more than an hour after the time in the file, the file was copied back, perhaps with
old `refs/`. It then proves nothing: a person must consent, and all unreachable snapshots are kept as lost (`judging`).

The operations log (spec 2):

    repo → latest updates → copy in overwritten/ → its updates → …      newest first, times strictly fall

Every change of the repo info adds an entry. A log without the newest entry of the last mark belongs to an earlier or
another repo info. If a copy is missing, older entries are unknown.

An upgrade leaves `refs/` beside `repo`, and a program that still writes spec 1 changes these files without the repo
info. A ref file or a tip later than the upgrade shows such a program; older files are leftovers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.icechunk.format import metadata
from dredge.icechunk.history import History
from dredge.icechunk.repository import SNAPSHOTS
from dredge.runs.parts import parquet_bytes, read_parquet
from dredge.runs.payload import NewerFormatError, from_versioned, to_json
from dredge.runs.tries import replace_tagged
from dredge.storage import ObjectReader, ObjectWriter, store_clock

log = logging.getLogger("dredge")

KNOWN = "known.parquet"
FORMAT = 1
_META = b"dredge"
_SCHEMA = pa.schema(
    [
        pa.field("snapshot", pa.string(), nullable=False),
        pa.field("parents", pa.list_(pa.string()), nullable=False),
    ]
)
_CHANGES_MAX = 5
_COPIED_BACK = timedelta(hours=1)

type Parents = Mapping[str, frozenset[str]]

FORGET_LOST = "forget-lost"


class LostTip(Struct, frozen=True):
    """An unreachable, unreleased tip: label of its ref, and the time of the first mark that missed it."""

    ref: str
    since: datetime


class Known(Struct, frozen=True, kw_only=True):
    """The record of the newest complete mark."""

    run_id: str = ""  # of the mark's run; "" before the first mark
    at: datetime | None = None
    tips: Mapping[str, str] = field(default_factory=dict)  # snapshot by label of the ref
    lost: Mapping[str, LostTip] = field(default_factory=dict)
    # Unreferenced snapshot files that are still kept, each with the time of the first mark that found it.
    unnamed: Mapping[str, datetime] = field(default_factory=dict)
    parents: Parents = field(default_factory=dict)  # of snapshots with a file, in this mark and earlier ones
    # Snapshots released by Dredge's expirations, unreachable in every mark since.
    released: frozenset[str] = frozenset()
    # Kind and time (microseconds) of the newest entry of the operations log (spec 2).
    operation: tuple[str, int] | None = None
    migrated_at: int | None = None  # time of the upgrade to spec 2 (microseconds)
    root: tuple[str, int] | None = None  # id and time of main's first snapshot: the life of the repository
    written_at: datetime | None = None
    # When the file was copied back; other fields but `run_id` are unknown until the next mark.
    copied_back_at: datetime | None = None

    def dumps(self) -> bytes:
        """Return the bytes of the file."""
        meta = to_json(replace(self, parents={})) | {"format": FORMAT}
        rows = sorted(self.parents.items())
        columns = {
            "snapshot": [node for node, _ in rows],
            "parents": [sorted(parents) for _, parents in rows],
        }
        schema = _SCHEMA.with_metadata({_META: json.dumps(meta, sort_keys=True).encode()})
        return parquet_bytes(pa.table(columns, schema=schema))


def read_known(state: ObjectReader) -> tuple[Known, str | None]:
    """Read the record of the newest complete mark, and the file's ETag (None without a file). A damaged file counts as
    an empty record: released snapshots wait again, and the next mark replaces the file."""
    try:
        with state.open_read(KNOWN) as stream:  # one answer: tag and time belong to these bytes
            etag, at, data = stream.info.etag or "", stream.info.last_modified, b"".join(stream)
    except NotFoundError:
        return Known(), None
    try:
        return _unless_copied_back(parse_known(data), at), etag
    except NewerFormatError as error:
        raise FormatError(f"{state.uri}/{KNOWN}: {error}. Nothing was deleted.") from None
    except (FormatError, KeyError, TypeError, ValueError) as error:
        log.error("%s/%s cannot be read (%s), so earlier tips of refs are unknown", state.uri, KNOWN, error)
        return Known(), etag


def _unless_copied_back(known: Known, at: datetime) -> Known:
    copied_back_at = known.copied_back_at
    if copied_back_at is None and known.written_at is not None and at > known.written_at + _COPIED_BACK:
        copied_back_at = at
    if copied_back_at is None:
        return known
    return Known(run_id=known.run_id, at=known.at, written_at=known.written_at, copied_back_at=copied_back_at)


def replace_known(state: ObjectWriter, known: Known, etag: str | None, now: datetime) -> bool:
    """Write the record with the store's time if the file still has the ETag; returns whether it was written. The caller
    holds the lease."""
    return replace_tagged(state, KNOWN, replace(known, written_at=now).dumps(), etag)


def parse_known(data: bytes) -> Known:
    """Parse the bytes of `Known.dumps`."""
    table = read_parquet(data)
    meta: dict[str, Any] = json.loads(table.schema.metadata[_META])
    rows = zip(table["snapshot"].to_pylist(), table["parents"].to_pylist(), strict=True)
    parents = {node: frozenset(parents) for node, parents in rows}
    return replace(from_versioned(Known, meta, FORMAT), parents=parents)


def note_released(state: ObjectWriter, released: Iterable[str]) -> None:
    """Record the snapshots that an expiration by Dredge released. The caller holds the lease. Raises FormatError: a
    newer version of Dredge wrote the file; ConflictError: other processes keep changing it."""
    added = frozenset(released)
    if not added:
        return
    for _ in range(_CHANGES_MAX):
        known, etag = read_known(state)
        if replace_known(
            state, replace(known, released=known.released | added), etag, store_clock(state, "")
        ):
            return
    raise ConflictError(f"other processes kept changing {state.uri}/{KNOWN}. Run the command again.")


def next_parents(known: Parents, history: History, files: Collection[str]) -> Parents:
    """Merge the parents of earlier marks with this history. For a reachable snapshot only the parent in this history
    counts, because earlier ones prove no release any more. A snapshot without a file is replaced by its parents."""
    now = history.snapshots
    links = {node: set(parents) - now.keys() for node, parents in known.items()}
    for node, entry in now.items():
        links.setdefault(node, set())
        if entry.parent_id is not None:
            links[node].add(entry.parent_id)
    kept = {*now, *files}

    def present(parents: Iterable[str]) -> frozenset[str]:
        found, waiting, seen = set(), list(parents), set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in kept:
                found.add(node)
            else:
                waiting += links.get(node, ())
        return frozenset(found)

    return {node: present(parents) for node, parents in links.items() if node in kept}


_DROPS = frozenset({"expiration ran", "collection ran"})
"""Operations that remove snapshots from the repo info without listing them."""
_MOVES_BACK = frozenset({"branch reset", "amend"})


class OperationsLog:
    """The operations of a repository, read on demand."""

    def __init__(self, reader: ObjectReader, info: metadata.RepoInfo) -> None:
        self._reader = reader
        self._info = info
        self.is_cut = False

    @property
    def newest(self) -> tuple[str, int] | None:
        """Kind and time of the newest operation; None for an empty log."""
        return self._info.newest

    def __iter__(self) -> Iterator[metadata.Update]:
        info = self._info
        while True:
            yield from info.updates
            if info.before_updates is None:
                return
            found = self._copy(info.before_updates)
            if found is None:
                self.is_cut = True
                return
            info = found

    def since(self, operation: tuple[str, int]) -> Since:
        """Find an operation, given by kind and time."""
        later: list[metadata.Update] = []
        for update in self:
            if update.operation == operation:
                return Since(True, (*later, update))
            if update.updated_at < operation[1]:
                return Since(False, (*later, update))
            later.append(update)
        return Since(None if self.is_cut else False, tuple(later))

    def migrated_at(self) -> int | None:
        """Return the time of the upgrade from spec 1 (microseconds); None if the log lacks it or is cut before it."""
        return next((update.updated_at for update in self if update.kind == "repository migrated"), None)

    def parents_before_drops(self, since: Since) -> Mapping[str, frozenset[str]]:
        """Return the parents of snapshots right before each operation that removed some."""
        found: dict[str, set[str]] = {}
        for update, before in pairwise(since.updates):
            if update.kind not in _DROPS or before.backup is None:
                continue
            info = self._copy(before.backup)
            for entry in () if info is None else info.snapshots:
                if entry.parent_id is not None:
                    found.setdefault(entry.id, set()).add(entry.parent_id)
        return {node: frozenset(parents) for node, parents in found.items()}

    def _copy(self, name: str) -> metadata.RepoInfo | None:
        key = f"{metadata.COPIES}{name}"
        try:
            return metadata.parse_repo_info(self._reader.get(key), key)
        except NotFoundError:
            return None


class Since(Struct, frozen=True):
    """The log since an operation: whether the log has the operation (None if the log is cut before it), and the later
    operations, newest first, ending with the operation itself or the entry in its place."""

    is_there: bool | None
    updates: tuple[metadata.Update, ...]

    def moved_back(self, branch: str) -> bool:
        """Whether a branch was reset or amended since."""
        return any(update.kind in _MOVES_BACK and update.ref == branch for update in self.updates)


class OldRef(Struct, frozen=True):
    """A ref of spec 1 in a repository of spec 2, such as "branch:main", with its tip and the time of its file."""

    label: str
    tip: str
    written_at: datetime


def list_ref_files(reader: ObjectReader) -> dict[tuple[str, str], tuple[str, datetime]]:
    """List the refs of spec 1: key and time of the file by ("branch" or "tag", name)."""
    times: dict[str, datetime] = {}
    for batch in reader.list(metadata.REFS_FOLDER):
        times |= zip(batch["key"].to_pylist(), batch["last_modified"].to_pylist(), strict=True)
    live = metadata.live_refs([key for key in times if not key.endswith("/")])
    return {ref: (key, times[key]) for ref, key in live.items()}


def read_old_refs(reader: ObjectReader) -> list[OldRef]:
    """Read the refs of spec 1."""
    found = {key: (":".join(ref), time) for ref, (key, time) in list_ref_files(reader).items()}
    return [
        OldRef(found[key][0], metadata.parse_ref(data, key), found[key][1])
        for key, data in reader.get_many(sorted(found))
    ]


def later_than(reader: ObjectReader, ref: OldRef, migrated_at: int | None) -> bool:
    """Return whether a ref file or its tip is later than the upgrade (microseconds); True if that time is unknown."""
    if migrated_at is None or ref.written_at > metadata.instant(migrated_at):
        return True
    key = SNAPSHOTS + ref.tip
    try:
        return metadata.parse_snapshot(reader.get(key), key).flushed_at > migrated_at
    except NotFoundError:
        return False
