"""What a complete mark leaves for the next one: `_dredge/known.parquet`, replaced by a conditional write.

Rows: snapshots that were reached, and those whose files are there, each with the parents that marks have seen. Metadata
of the file: one JSON object with the rest of `Known`.

A file that the store wrote more than an hour after the time in it was copied back, perhaps with `refs/` of its time. It
proves nothing: a person is asked, and everything that is unreachable is kept as if it were lost (`judging`).
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
from dredge.runs.folder import parquet_bytes, read_parquet
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


@dataclass(frozen=True, slots=True)
class LostTip:
    """A tip that is not reached any more and was not released.

    Attributes:
        ref: label of the ref that pointed to it.
        since: the store's time of the first mark that missed it.
    """

    ref: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the newest complete mark knew.

    Attributes:
        run_id: of the mark's run; "" before the first mark.
        at: the store's time of the mark; None before the first one.
        tips: snapshot by label of the ref.
        lost: tips that are still kept.
        unnamed: snapshot files that nothing named and that are still kept, each with the store's time of the first mark
            that missed it.
        parents: of each snapshot whose file was there, as this mark and earlier ones saw them.
        released: snapshots that expirations by Dredge released and no mark has seen reached since.
        operation: kind and time (microseconds) of the newest entry of the operations log (spec 2).
        migrated_at: time of the upgrade to spec 2 (microseconds).
        root: id and time of main's first snapshot: the life of the repository.
        written_at: the store's time when the file was written; None before.
        copied_back_at: when the file was copied back, by the store's clock; None when it was not. Until the next mark
            nothing else is known than whose it is.
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
        """As the bytes of the file."""
        meta = to_json(replace(self, parents={})) | {"format": FORMAT}
        rows = sorted(self.parents.items())
        columns = {
            "snapshot": [node for node, _ in rows],
            "parents": [sorted(parents) for _, parents in rows],
        }
        schema = _SCHEMA.with_metadata({_META: json.dumps(meta, sort_keys=True).encode()})
        return parquet_bytes(pa.table(columns, schema=schema))


def read_known(state: ObjectReader) -> tuple[Known, str | None]:
    """Read what the newest complete mark knew, and the tag of the file; None when there is none. From a damaged file
    nothing is taken: what was released waits anew (`mark.step`), and the next mark replaces the file.

    Raises:
        FormatError: the file is of a newer version of Dredge.
    """
    try:
        with state.open_read(
            KNOWN
        ) as stream:  # one answer gives all, so tag and time are those of these bytes
            etag, at, data = stream.info.etag or "", stream.info.last_modified, b"".join(stream)
    except NotFoundError:
        return Known(), None
    try:
        return _unless_copied_back(parse_known(data), at), etag
    except _NewerError as error:
        raise FormatError(f"{state.uri}/{KNOWN} {error}. Nothing was deleted. Update Dredge.") from None
    except (FormatError, KeyError, TypeError, ValueError) as error:
        log.error(
            "%s/%s cannot be read (%s): what earlier runs saw as tips of refs is unknown",
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


def replace_known(state: ObjectWriter, known: Known, etag: str | None) -> bool:
    """Write what is known, with the time; whether it was still as it was read."""
    return replace_tagged(state, KNOWN, replace(known, written_at=store_clock(state, "")).dumps(), etag)


class _NewerError(Exception):
    """A newer version of Dredge wrote the file."""


def parse_known(data: bytes) -> Known:
    """From the bytes that `Known.dumps` made, whenever the store wrote them."""
    table = read_parquet(data)
    meta: dict[str, Any] = json.loads(table.schema.metadata[_META])
    if meta["format"] > FORMAT:
        raise _NewerError(f"has format {meta['format']}, and this version knows {FORMAT}")
    rows = zip(table["snapshot"].to_pylist(), table["parents"].to_pylist(), strict=True)
    parents = {node: frozenset(parents) for node, parents in rows}
    return replace(from_file(Known, meta), parents=parents)


def note_released(state: ObjectWriter, released: Iterable[str]) -> None:
    """Note what an expiration by Dredge has released.

    Raises:
        FormatError: the file is of a newer version of Dredge.
        ConflictError: others change it all the time.
    """
    added = frozenset(released)
    if not added:
        return
    for _ in range(_CHANGES_MAX):
        known, etag = read_known(state)
        if replace_known(state, replace(known, released=known.released | added), etag):
            return
    raise ConflictError(f"{state.uri}/{KNOWN} was changed by somebody else at the same moment. Run it again.")


def next_parents(known: Parents, history: History, files: Collection[str]) -> Parents:
    """Give the parents that marks have seen, with those of this history.

    A parent that is reached now counts only where this history has it: its earlier children no longer say that it was
    released. Snapshots whose files are gone are left out, and their parents take their place.
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


FORGET_LOST = "forget-lost"
