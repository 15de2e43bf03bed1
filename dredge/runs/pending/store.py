"""Where the pending list lies, and whether a run may believe it.

    <state>/pending/current.json      the pointer: what the list is about, whose it is, when, its parts with digests
    <state>/pending/<label>-….parquet a part: the rows of one shard
    <state>/newest_list.json          a note: when the newest list was left

The parts are written first and then the pointer, under the lease and with a condition: after a kill between the two the
old list counts. A part whose rows did not change is named again. The note comes last, so no list that counts is older.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConflictError, DredgeError, FormatError, NotFoundError
from dredge.hashing import hash64
from dredge.runs.cleanup import ListedFiles
from dredge.runs.conditional import replace_again
from dredge.runs.folder import RunFolder
from dredge.runs.payload import NewerFormatError, from_json, from_versioned, to_json
from dredge.runs.pending.figures import Waits
from dredge.runs.pending.rows import FOUND, PENDING, Turn, advance
from dredge.runs.summary import PartInfo
from dredge.runs.versions import verify
from dredge.storage import ObjectReader, ObjectWriter

FORMAT = 2
FOLDER = "pending"
POINTER = f"{FOLDER}/current.json"
NEWEST = "newest_list.json"
_AHEAD_MAX = timedelta(minutes=5)
"""The clocks of a store's servers may differ so much."""

_LATE_MAX = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingList:
    """The list that a mark left; a payload.

    Attributes:
        subject: what it is about, such as the storage namespace.
        life: tells the repository from one that was made again in its place; "" where nothing tells.
        run_id: the run.
        marked_at: when that was planned, by the store's clock.
        left_at: when the list was written, by the store's clock.
        bits: there are 2**bits shards.
        parts: files of rows (`PENDING`) by number of the shard; none for one without rows.
        format: of this record.
    """

    subject: str
    life: str
    run_id: str
    marked_at: datetime
    left_at: datetime
    bits: int = 0
    parts: Mapping[int, PartInfo] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(part.rows for part in self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Newest:
    left_at: datetime
    format: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a list must be to be believed.

    Attributes:
        subject: see `PendingList`.
        life: see `PendingList`.
        valid_from: a list whose run was planned by then counts no more; None: any.
        why: what came since, as half a sentence.
    """

    subject: str
    life: str
    valid_from: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is stored.

    Attributes:
        etag: of the pointer; None without one.
        pending: the list; None without one, and where it may not be believed.
        problem: why it may not be, as half a sentence; "" otherwise.
    """

    etag: str | None = None
    pending: PendingList | None = None
    problem: str = ""


def read_list(state: ObjectReader, expected: Expected, now: datetime) -> Stored:
    """Read the list, and see whether a run may believe it.

    Args:
        state: on the folder of lease and index.
        expected: what it must be.
        now: the store's time.

    Raises:
        RefusedError: a newer version of Dredge wrote it.
        UnavailableError: the store does not answer.
    """
    try:
        # One answer gives all three, so the tag and the time are those of these bytes.
        with state.open_read(POINTER) as stream:
            etag, written_at, data = stream.info.etag or "", stream.info.last_modified, b"".join(stream)
    except NotFoundError:
        return Stored()
    try:
        pending = from_versioned(PendingList, json.loads(data), FORMAT)
    except NewerFormatError as error:
        raise error.as_refusal(f"{state.uri}/{POINTER}") from None
    except (FormatError, ValueError) as error:
        return Stored(etag=etag, problem=f"{POINTER} cannot be read ({error})")
    problem = (
        _why_not(pending, expected, now, written_at) or _later(state, pending) or _damage(state, pending)
    )
    return Stored(etag=etag, pending=None if problem else pending, problem=problem)


def _why_not(pending: PendingList, expected: Expected, now: datetime, written_at: datetime | None) -> str:
    if pending.subject != expected.subject:
        return f"it is about {pending.subject}"
    if pending.life and expected.life and pending.life != expected.life:
        return f"it is about an earlier life of it ({pending.life}, and this one is {expected.life})"
    if pending.left_at > now + _AHEAD_MAX:
        return f"it is from the future ({pending.left_at:%Y-%m-%d %H:%M} UTC)"
    if written_at is not None and written_at > pending.left_at + _LATE_MAX:
        return (
            f"it was left at {pending.left_at:%Y-%m-%d %H:%M} UTC and written at {written_at:%Y-%m-%d %H:%M} UTC, so"
            " that it is a copy of an older one"
        )
    if expected.valid_from is not None and pending.marked_at <= expected.valid_from:
        return expected.why
    return ""


def _later(state: ObjectReader, pending: PendingList) -> str:
    try:
        newest = from_versioned(_Newest, json.loads(state.get(NEWEST)), 1)
    except NotFoundError:
        return ""
    except (FormatError, ValueError) as error:
        return f"{NEWEST} cannot be read ({error})"
    if pending.left_at < newest.left_at:
        return f"a later one was left at {newest.left_at:%Y-%m-%d %H:%M} UTC, so that somebody put it back"
    return ""


def _damage(state: ObjectReader, pending: PendingList) -> str:
    folder = folder_of(state, pending.run_id)
    try:
        verify((folder, part) for part in pending.parts.values())
    except (FormatError, NotFoundError, ValueError) as error:
        return f"a part of it is gone or damaged ({error})"
    return ""


def folder_of(state: ObjectReader, run_id: str) -> RunFolder:
    """The folder that keys of parts are relative to."""
    return RunFolder(state, run_id)  # type: ignore[arg-type]


def write_part(state: ObjectWriter, label: str, shard: int, rows: pa.Table) -> PartInfo:
    """Write the rows of a shard.

    Args:
        state: on the folder of lease and index.
        label: begins the name; no other try and no other call of a task has it.
        shard: its number.
        rows: of the list.
    """
    return RunFolder(state, label).write_table(FOLDER, shard, rows.cast(PENDING), label)


def same_or_written(
    state: ObjectWriter, label: str, shard: int, rows: pa.Table, before: pa.Table, known: PartInfo | None
) -> dict[int, PartInfo]:
    """Name the part of a shard again where its rows are as they were; else write it.

    Args:
        state: on the folder of lease and index.
        label: see `write_part`.
        shard: its number.
        rows: of the list.
        before: rows of the list that the run has read.
        known: the one part that has these; None where they are in none, or in several.

    Returns:
        The part by number of the shard; none where there are no rows.
    """
    if not rows.num_rows:
        return {}
    if known is not None and rows.equals(before):
        return {shard: known}
    return {shard: write_part(state, label, shard, rows)}


def read_rows(folder: RunFolder, parts: Iterable[PartInfo]) -> pa.Table:
    """Read rows of a list, in no order.

    Args:
        folder: of `folder_of`.
        parts: of the list.

    Raises:
        FormatError: a part is gone or damaged.
    """
    tables = [folder.read_part(part).cast(PENDING) for part in parts]
    return pa.concat_tables([PENDING.empty_table(), *tables]).combine_chunks()


def is_part(key: str) -> bool:
    """Whether a key, relative to the folder of lease and index, is that of a part, of this list or an earlier one."""
    folder, _, name = key.rpartition("/")
    return folder == FOLDER and name.endswith(".parquet")


def superseded_parts(state: ObjectReader, files: ListedFiles, prefix: str = f"{FOLDER}/") -> list[str]:
    """Parts of earlier lists, which no run reads any more: a run that waits builds on the list that it has read.

    Args:
        state: on the folder of lease and index. Its pointer is read now, after the files were listed, so that no part
            that it names is taken for an old one.
        files: listed a week back, or further.
        prefix: where the parts are among the files.

    Raises:
        DredgeError: the pointer cannot be read, so that nobody knows.
    """
    named = {f"{prefix}{key.removeprefix(f'{FOLDER}/')}" for key in parts_named(state)}
    return [key for key in files.old(prefix) if key.endswith(".parquet") and key not in named]


def leave_list(state: ObjectWriter, pending: PendingList, etag: str | None) -> None:
    """Let the pointer name a list whose parts are written. The caller holds the lease.

    Args:
        state: on the folder of lease and index.
        pending: the list.
        etag: of the pointer as the run read it; None for none.

    Raises:
        ConflictError: another run has left its list since.
    """
    data = json.dumps(to_json(pending), sort_keys=True).encode()
    if not replace_again(state, POINTER, data, etag, lambda found: _run_of(found) == pending.run_id):
        raise ConflictError(
            f"run {pending.run_id}: another run has left its pending list in {state.uri}/{POINTER} since this run"
            " compared what is listed with what is live. Nothing was deleted. Start a new run."
        )
    state.put(NEWEST, json.dumps(to_json(_Newest(left_at=pending.left_at))).encode())


def parts_named(state: ObjectReader) -> set[str]:
    """Keys of the parts that the pointer names, relative to the folder of lease and index.

    Raises:
        DredgeError: the pointer cannot be read, so that nobody knows.
    """
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


@dataclass(slots=True)
class SmallList:
    """The list as a run has it.

    Attributes:
        expected: what a list must be to be believed.
        stored: what is stored.
        rows: of the list, as they are stored, or as the run has advanced them.
        problem: why the stored ones do not count, as half a sentence; "" otherwise.
        figures: as reports have them (`words`), once the list was advanced.
    """

    expected: Expected
    stored: Stored = field(default_factory=Stored)
    rows: pa.Table = field(default_factory=PENDING.empty_table)
    problem: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    _before: pa.Table = field(default_factory=PENDING.empty_table)

    @classmethod
    def read(cls, place: ObjectReader, expected: Expected, now: datetime) -> SmallList:
        """Read the list.

        Args:
            place: on the folder of the list.
            expected: what it must be.
            now: the store's time.

        Raises:
            RefusedError: a newer version of Dredge wrote it.
            UnavailableError: the store does not answer.
        """
        found = cls(expected, read_list(place, expected, now))
        found.problem, pending = found.stored.problem, found.stored.pending
        if pending is not None:
            try:
                found.rows = found._before = read_rows(
                    folder_of(place, pending.run_id), pending.parts.values()
                )
            except FormatError as error:
                found.problem = f"a part of it cannot be read ({error})"
        return found

    def advance(self, found: pa.Table, turn: Turn, live: Collection[str] = ()) -> set[str]:
        """Advance the list by what a mark found.

        Args:
            found: by the mark (`FOUND`).
            turn: the run.
            live: addresses that are live now, where the run did not read everything.

        Returns:
            Addresses of what has waited.
        """
        is_live = np.asarray(pc.is_in(self.rows["address"], pa.array(sorted(live), pa.string())), bool)
        after = advance(self.rows, found, is_live, np.zeros(self.rows.num_rows, bool), turn)
        self.rows = after.rows
        self.figures = Waits.of(after.rows, found, after.confirmed, turn).to_details(turn.grace)
        return set(found.filter(pa.array(after.confirmed))["address"].to_pylist())

    def forget(self, addresses: Iterable[str]) -> None:
        """Take rows off the list: what they are about waits anew.

        Args:
            addresses: of the rows; others are passed over.
        """
        gone = pc.is_in(self.rows["address"], pa.array(list(addresses), pa.string()))
        self.rows = self.rows.filter(pc.invert(gone))

    def leave(self, place: ObjectWriter, label: str, run_id: str, marked_at: datetime, now: datetime) -> None:
        """Leave the list for the next run. The caller holds the lease.

        Args:
            place: on the folder of the list.
            label: begins the names of files; no other try has it.
            run_id: the run.
            marked_at: when it was planned, by the store's clock.
            now: the store's time.

        Raises:
            ConflictError: another run has left its list since.
        """
        known = None if self.stored.pending is None else self.stored.pending.parts.get(0)
        pending = PendingList(
            subject=self.expected.subject,
            life=self.expected.life,
            run_id=run_id,
            marked_at=marked_at,
            left_at=now,
            parts=same_or_written(place, label, 0, self.rows, self._before, known),
        )
        leave_list(place, pending, self.stored.etag)


def found_rows(addresses: Iterable[str], **columns: Any) -> pa.Table:
    """Make rows of what a mark found.

    Args:
        addresses: each once.
        columns: of `FOUND` by name, in the order of the addresses; null where there is none.
    """
    names = pa.array(addresses, pa.string())
    table = {item.name: columns.get(item.name, pa.nulls(len(names), item.type)) for item in FOUND}
    return pa.table({**table, "address": names, "hash": pa.array(hash64(names))}, schema=FOUND)
