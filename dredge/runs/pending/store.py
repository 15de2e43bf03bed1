"""The stored pending list, and whether a run may use it.

    <state>/pending/current.json      the pointer: subject, run, times, and parts with digests
    <state>/pending/<label>-….parquet a part: the rows of one shard
    <state>/newest_list.json          when the newest list was written

Parts are written first, then the pointer, under the lease and conditionally: after a kill in between, the old list is
valid. A part with unchanged rows is used again. The time is written last, so every valid list is at least as new.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import ConflictError, DredgeError, FormatError, NotFoundError
from dredge.hashing import hash64
from dredge.runs.cleanup import ListedFiles
from dredge.runs.folder import RunFolder
from dredge.runs.payload import NewerFormatError, PartInfo, from_json, from_versioned, to_json
from dredge.runs.pending.rows import FOUND, PENDING, PartFacts, Turn, Waits, advance
from dredge.runs.tries import replace_again
from dredge.runs.versions import verify
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import at_once

FORMAT = 3
FOLDER = "pending"
POINTER = f"{FOLDER}/current.json"
NEWEST = "newest_list.json"
# Largest difference between the clocks of a store's servers.
_AHEAD_MAX = timedelta(minutes=5)

_LATE_MAX = timedelta(hours=1)


class PendingList(Struct, frozen=True, kw_only=True):
    """The list of a mark; a payload."""

    subject: str  # such as the storage namespace
    life: str  # id of the repository's life, which changes if it is created again; "" if unknown
    run_id: str
    marked_at: datetime  # the store's time when the run was planned
    left_at: datetime  # the store's time when the list was written
    bits: int = 0  # there are 2**bits shards
    parts: Mapping[int, PartInfo] = field(default_factory=dict)  # files of rows by shard
    # about parts, by shard; a part without facts is read
    facts: Mapping[int, PartFacts] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self.parts.values())


class _Newest(Struct, frozen=True, kw_only=True):
    left_at: datetime
    format: int = 1


class Expected(Struct, frozen=True, kw_only=True):
    """Conditions for using a list."""

    subject: str
    life: str
    valid_from: datetime | None = None  # lists of runs planned until then are not used; None: any
    why: str = ""  # the event at that time, half a sentence


class Stored(Struct, frozen=True, kw_only=True):
    """The stored list."""

    etag: str | None = None  # of the pointer; None if absent
    pending: PendingList | None = None  # None without a list, or if it may not be used
    problem: str = ""  # why it may not be used, half a sentence


class Fetched(Struct, frozen=True):
    """The bytes of the pointer with its ETag and time, and of the time of the newest list; None if absent."""

    pointer: tuple[str, datetime | None, bytes] | None
    newest: bytes | None


def fetch_list(state: ObjectReader) -> Fetched:
    """Read the pointer and the time of the newest list, which is written after it."""
    with at_once() as ask:
        newest_read = ask(state.get, NEWEST)
        try:
            # One answer gives all three, so the tag and the time are those of these bytes.
            with state.open_read(POINTER) as stream:
                pointer = stream.info.etag or "", stream.info.last_modified, b"".join(stream)
        except NotFoundError:
            return Fetched(None, None)
    try:
        return Fetched(pointer, newest_read.result())
    except NotFoundError:
        return Fetched(pointer, None)


def read_list(
    state: ObjectReader, expected: Expected, now: datetime, fetched: Fetched | None = None
) -> Stored:
    """Read the list, and check whether a run may use it. `fetched`: None reads it. Raises RefusedError: a newer version
    of Dredge wrote it; UnavailableError: the store does not answer."""
    found = fetched or fetch_list(state)
    if found.pointer is None:
        return Stored()
    etag, written_at, data = found.pointer
    try:
        pending = from_versioned(PendingList, json.loads(data), FORMAT)
    except NewerFormatError as error:
        raise error.as_refusal(f"{state.uri}/{POINTER}") from None
    except (FormatError, ValueError) as error:
        return Stored(etag=etag, problem=f"{POINTER} cannot be read ({error})")
    problem = (
        _why_not(pending, expected, now, written_at)
        or _later(found.newest, pending)
        or _damage(state, pending)
    )
    return Stored(etag=etag, pending=None if problem else pending, problem=problem)


def _why_not(pending: PendingList, expected: Expected, now: datetime, written_at: datetime | None) -> str:
    if pending.subject != expected.subject:
        return f"it is about {pending.subject}"
    if pending.life and expected.life and pending.life != expected.life:
        return f"it is about an earlier repository of this name ({pending.life}; this one is {expected.life})"
    if pending.left_at > now + _AHEAD_MAX:
        return f"it is from the future ({pending.left_at:%Y-%m-%d %H:%M} UTC)"
    if written_at is not None and written_at > pending.left_at + _LATE_MAX:
        return (
            f"it has the time {pending.left_at:%Y-%m-%d %H:%M} UTC, but was written at {written_at:%Y-%m-%d %H:%M}"
            " UTC: it is a copy of an older one"
        )
    if expected.valid_from is not None and pending.marked_at <= expected.valid_from:
        return expected.why
    return ""


def _later(data: bytes | None, pending: PendingList) -> str:
    if data is None:
        return ""
    try:
        newest = from_versioned(_Newest, json.loads(data), 1)
    except (FormatError, ValueError) as error:
        return f"{NEWEST} cannot be read ({error})"
    if pending.left_at < newest.left_at:
        return f"a later one was written at {newest.left_at:%Y-%m-%d %H:%M} UTC, so this is an older one"
    return ""


def _damage(state: ObjectReader, pending: PendingList) -> str:
    folder = parts_folder(state, pending.run_id)
    try:
        verify((folder, part) for part in pending.parts.values())
    except (FormatError, NotFoundError, ValueError) as error:
        return f"a part of it is missing or damaged ({error})"
    return ""


def parts_folder(state: ObjectReader, run_id: str) -> RunFolder:
    """Return the folder for keys of parts."""
    return RunFolder(state, run_id)  # type: ignore[arg-type]


def write_part(state: ObjectWriter, label: str, shard: int, rows: pa.Table) -> PartInfo:
    """Write the rows of a shard; `label` is unique to the try and the task's call."""
    return RunFolder(state, label).write_table(FOLDER, shard, rows.cast(PENDING), label)


def write_if_changed(
    state: ObjectWriter, label: str, shard: int, rows: pa.Table, before: pa.Table, known: PartInfo | None
) -> dict[int, PartInfo]:
    """Write the part of a shard, or return the known part if its rows are unchanged. `before`: rows read by the run.
    `known`: the part with these rows; None if there is none, or several. Returns the part by shard; none without
    rows."""
    if not rows.num_rows:
        return {}
    if known is not None and rows.equals(before):
        return {shard: known}
    return {shard: write_part(state, label, shard, rows)}


def read_rows(folder: RunFolder, parts: Iterable[PartInfo]) -> pa.Table:
    """Read rows of a list, in no order. Raises FormatError if a part is missing or damaged."""
    tables = [folder.read_part(part).cast(PENDING) for part in parts]
    return pa.concat_tables([PENDING.empty_table(), *tables]).combine_chunks()


def is_part(key: str) -> bool:
    """Whether a key, relative to the folder of lease and index, is a part of a list."""
    folder, _, name = key.rpartition("/")
    return folder == FOLDER and name.endswith(".parquet")


def list_superseded_parts(state: ObjectReader, files: ListedFiles, prefix: str = f"{FOLDER}/") -> list[str]:
    """Return parts of earlier lists. No run needs them: a waiting run has read its list. `state`: on the folder of
    lease and index. Its pointer is read after the files were listed, so that no part of a new list is returned.
    `files`: listed a week ago or earlier. `prefix`: of parts in the listing. Raises DredgeError: the pointer cannot be
    read."""
    named = {f"{prefix}{key.removeprefix(f'{FOLDER}/')}" for key in read_named_parts(state)}
    return [key for key in files.old(prefix) if key.endswith(".parquet") and key not in named]


def write_list(state: ObjectWriter, pending: PendingList, etag: str | None) -> None:
    """Point to a list whose parts are written. The caller has the lease. `etag`: of the pointer when the run read it;
    None for none. Raises ConflictError if another run has written its list since."""
    data = json.dumps(to_json(pending), sort_keys=True).encode()
    if not replace_again(state, POINTER, data, etag, lambda found: _run_of(found) == pending.run_id):
        raise ConflictError(
            f"run {pending.run_id}: another run has written its pending list to {state.uri}/{POINTER} since this run"
            " compared listed and live objects. Nothing was deleted. Start a new run."
        )
    state.put(NEWEST, json.dumps(to_json(_Newest(left_at=pending.left_at))).encode())


def read_named_parts(state: ObjectReader) -> set[str]:
    """Return the keys of the parts in the pointer, relative to the folder of lease and index. Raises DredgeError if the
    pointer cannot be read."""
    try:
        found = from_json(PendingList, json.loads(state.get(POINTER)))
        return {part.key for part in found.parts.values()}
    except NotFoundError:
        return set()
    except (FormatError, ValueError) as error:
        raise FormatError(f"{state.uri}/{POINTER} cannot be read: {error}") from None


def _run_of(data: bytes) -> str | None:
    try:
        return from_json(PendingList, json.loads(data)).run_id
    except (DredgeError, ValueError):
        return None


class SmallList(Struct):
    """A list of few rows, read and written as a whole. Only lists of lakeFS runs are in shards."""

    expected: Expected  # conditions for using a list
    stored: Stored = field(default_factory=Stored)
    rows: pa.Table = field(default_factory=PENDING.empty_table)  # stored, or advanced by this run
    problem: str = ""  # why the stored ones are not used, half a sentence
    figures: Mapping[str, Any] = field(default_factory=dict)  # of `Waits.to_details`, after `advance`
    _before: pa.Table = field(default_factory=PENDING.empty_table)

    @classmethod
    def read(cls, place: ObjectReader, expected: Expected, now: datetime) -> SmallList:
        """Read the list. Raises RefusedError: a newer version of Dredge wrote it; UnavailableError: the store does not
        answer."""
        found = cls(expected, read_list(place, expected, now))
        found.problem, pending = found.stored.problem, found.stored.pending
        if pending is not None:
            try:
                found.rows = found._before = read_rows(
                    parts_folder(place, pending.run_id), pending.parts.values()
                )
            except FormatError as error:
                found.problem = f"a part of it cannot be read ({error})"
        return found

    def advance(self, found: pa.Table, turn: Turn, live: Collection[str] = ()) -> set[str]:
        """Advance the list by the objects of a mark. `found`: by the mark (`FOUND`). `live`: addresses live now, for a
        run without a complete listing. Returns the addresses after their wait."""
        is_live = np.asarray(pc.is_in(self.rows["address"], pa.array(sorted(live), pa.string())), bool)
        after = advance(self.rows, found, is_live, np.zeros(self.rows.num_rows, bool), turn)
        self.rows = after.rows
        self.figures = Waits.of(
            after.rows, PartFacts.of(after.rows), found, after.confirmed, turn
        ).to_details(turn.grace)
        return set(found.filter(pa.array(after.confirmed))["address"].to_pylist())

    def forget(self, addresses: Iterable[str]) -> None:
        """Remove rows: their objects wait again."""
        is_removed = pc.is_in(self.rows["address"], pa.array(list(addresses), pa.string()))
        self.rows = self.rows.filter(pc.invert(is_removed))

    def write(self, place: ObjectWriter, label: str, run_id: str, marked_at: datetime, now: datetime) -> None:
        """Write the list for the next run. The caller has the lease. `label`: prefix of file names, unique to the try.
        `marked_at`: the store's time when the run was planned. Raises ConflictError: another run has written its list
        since."""
        known = None if self.stored.pending is None else self.stored.pending.parts.get(0)
        pending = PendingList(
            subject=self.expected.subject,
            life=self.expected.life,
            run_id=run_id,
            marked_at=marked_at,
            left_at=now,
            parts=write_if_changed(place, label, 0, self.rows, self._before, known),
        )
        write_list(place, pending, self.stored.etag)


def found_rows(addresses: Iterable[str], **columns: Any) -> pa.Table:
    """Return rows of found objects. `addresses`: each once. `columns`: of `FOUND` by name, in the order of the
    addresses; null if missing."""
    names = pa.array(addresses, pa.string())
    table = {item.name: columns.get(item.name, pa.nulls(len(names), item.type)) for item in FOUND}
    return pa.table({**table, "address": names, "hash": pa.array(hash64(names))}, schema=FOUND)
