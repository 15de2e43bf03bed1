"""The record of a complete mark for the next one: `_dredge/known.parquet`, replaced by a conditional write.

Rows: reachable snapshots, and those with a file, each with the parents in all marks. Metadata of the file: a JSON
object with the other fields of `Known`.

A file that the store wrote more than an hour after the time in it was copied back, perhaps with `refs/` of its time. It
proves nothing: a person must consent, and all unreachable snapshots are kept as lost (`judging`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.icechunk.history import History
from dredge.runs.conditional import replace_tagged
from dredge.runs.parts import parquet_bytes, read_parquet
from dredge.runs.payload import from_file, to_json
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


@dataclass(frozen=True, slots=True)
class LostTip:
    """An unreachable tip without a release.

    Attributes:
        ref: label of its ref.
        since: the store's time of the first mark that missed it.
    """

    ref: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The record of the newest complete mark.

    Attributes:
        run_id: of the mark's run; "" before the first mark.
        at: the store's time of the mark; None before the first mark.
        tips: snapshot by label of the ref.
        lost: lost tips that are still kept.
        unnamed: unreferenced snapshot files that are still kept, each with the store's time of the first mark that
            found
            it.
        parents: of each snapshot with a file, in this mark and earlier ones.
        released: snapshots released by Dredge's expirations, unreachable in every mark since.
        operation: kind and time (microseconds) of the newest entry of the operations log (spec 2).
        migrated_at: time of the upgrade to spec 2 (microseconds).
        root: id and time of main's first snapshot: the life of the repository.
        written_at: the store's time when the file was written.
        copied_back_at: the store's time when the file was copied back; the other fields but `run_id` are then unknown
            until the next mark.
    """

    run_id: str = ""
    at: datetime | None = None
    tips: Mapping[str, str] = field(default_factory=dict)
    lost: Mapping[str, LostTip] = field(default_factory=dict)
    unnamed: Mapping[str, datetime] = field(default_factory=dict)
    parents: Parents = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    operation: tuple[str, int] | None = None
    migrated_at: int | None = None
    root: tuple[str, int] | None = None
    written_at: datetime | None = None
    copied_back_at: datetime | None = None

    def dumps(self) -> bytes:
        """The bytes of the file."""
        meta = to_json(replace(self, parents={})) | {"format": FORMAT}
        rows = sorted(self.parents.items())
        columns = {
            "snapshot": [node for node, _ in rows],
            "parents": [sorted(parents) for _, parents in rows],
        }
        schema = _SCHEMA.with_metadata({_META: json.dumps(meta, sort_keys=True).encode()})
        return parquet_bytes(pa.table(columns, schema=schema))


def read_known(state: ObjectReader) -> tuple[Known, str | None]:
    """Read the record of the newest complete mark, and the file's tag (None without a file). A damaged file counts as
    an empty record: released snapshots wait again, and the next mark replaces the file.
    """
    try:
        with state.open_read(KNOWN) as stream:  # one answer: tag and time belong to these bytes
            etag, at, data = stream.info.etag or "", stream.info.last_modified, b"".join(stream)
    except NotFoundError:
        return Known(), None
    try:
        return _unless_copied_back(parse_known(data), at), etag
    except _NewerError as error:
        raise FormatError(f"{state.uri}/{KNOWN} {error}. Nothing was deleted. Update Dredge.") from None
    except (FormatError, KeyError, TypeError, ValueError) as error:
        log.error(
            "%s/%s cannot be read (%s): the tips of refs in earlier runs are unknown",
            state.uri,
            KNOWN,
            error,
        )
        return Known(), etag


def _unless_copied_back(known: Known, at: datetime) -> Known:
    copied_back_at = known.copied_back_at
    if copied_back_at is None and known.written_at is not None and at > known.written_at + _COPIED_BACK:
        copied_back_at = at
    if copied_back_at is None:
        return known
    return Known(run_id=known.run_id, at=known.at, written_at=known.written_at, copied_back_at=copied_back_at)


def replace_known(state: ObjectWriter, known: Known, etag: str | None, now: datetime) -> bool:
    """Write the record with the store's time, if the file still has the tag; returns whether it had. The caller holds
    the lease.
    """
    return replace_tagged(state, KNOWN, replace(known, written_at=now).dumps(), etag)


class _NewerError(Exception):
    """A newer version of Dredge wrote the file."""


def parse_known(data: bytes) -> Known:
    """Parse the bytes of `Known.dumps`."""
    table = read_parquet(data)
    meta: dict[str, Any] = json.loads(table.schema.metadata[_META])
    if meta["format"] > FORMAT:
        raise _NewerError(f"has format {meta['format']}, and this version knows {FORMAT}")
    rows = zip(table["snapshot"].to_pylist(), table["parents"].to_pylist(), strict=True)
    parents = {node: frozenset(parents) for node, parents in rows}
    return replace(from_file(Known, meta), parents=parents)


def note_released(state: ObjectWriter, released: Iterable[str]) -> None:
    """Record the snapshots that an expiration by Dredge has released. The caller holds the lease.

    Raises:
        FormatError: the file is of a newer version of Dredge.
        ConflictError: others change it all the time.
    """
    added = frozenset(released)
    if not added:
        return
    for _ in range(_CHANGES_MAX):
        known, etag = read_known(state)
        if replace_known(
            state, replace(known, released=known.released | added), etag, store_clock(state, "")
        ):
            return
    raise ConflictError(f"another process changed {state.uri}/{KNOWN} at the same time. Run it again.")


def next_parents(known: Parents, history: History, files: Collection[str]) -> Parents:
    """Merge the parents of earlier marks with this history.

    A reachable snapshot's parent counts only if this history has it: earlier children do not show any more that it was
    released. A snapshot without a file is left out, and its parents take its place.
    """
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
