"""Range and metarange files, read and decoded.

Their names are hashes of their contents, so a process with several steps reads each small file once, and keeps it in a
cache by the URI of the namespace (`PlannedRun.going_on`).

Commits kept by a tag, by Dredge's own walk or by a rule of the policy are active like all others. A policy rule about
paths keeps only the entries with a matching path (`list_committed.collect.collect_paths`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.namespaces import METADATA, Keys
from dredge.gc.retention import compile_glob
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.ranges import MetarangeReader, is_table_id, kind_of, open_tables
from dredge.lakefs.files.sstable import RANGES, Block
from dredge.lakefs.files.sstable.columns import RangeDecoder, decode_ranges, read_addresses
from dredge.lakefs.files.sstable.layout import FOOTER_SIZE, MAGIC, Expected
from dredge.runs.folder import RunFolder
from dredge.runs.parts import get_part_cache
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import Progress, TaskRunner, WorkerRun, in_chunks, partition_function
from dredge.sets.hashes import NONE, Hashes, unite
from dredge.storage import ObjectInfo, ObjectReader
from dredge.storage.parallel import get_ahead

log = logging.getLogger("dredge")

# More files of one call would push those out of the cache that the next steps read again.
_KEPT_OF_A_CALL = 8 << 20
_COLUMNS = ("address_type", "address_hash", "size")

SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("head", pa.bool_(), nullable=False),
    ]
)


def get_files(reader: ObjectReader, ids: Sequence[str], lenient: bool = False) -> Iterator[tuple[str, bytes]]:
    """Read files; yields keys and contents in the order of the ids. `lenient` leaves unreadable files out."""
    kept = get_part_cache(reader.uri)
    keys = [METADATA + item for item in ids]
    found = {} if kept is None else {key: data for key in keys if (data := kept.get(key)) is not None}
    unread = [key for key in keys if key not in found]

    def read(key: str) -> bytes:
        try:
            return reader.get(key)
        except DredgeError as error:
            log.info("%s cannot be read: %s", key, error)
            return b""

    files = get_ahead(read, unread) if lenient else reader.get_many(unread)
    size = 0
    for key in keys:
        if (data := found.pop(key, None)) is None:
            _, data = next(files)
            size += len(data)
            if kept is not None and data and size <= _KEPT_OF_A_CALL:
                kept.put(key, data)
        if data or not lenient:
            yield key, data


def get_file(reader: ObjectReader, file_id: str) -> bytes:
    """Read a file. Raises NotFoundError."""
    return next(get_files(reader, [file_id]))[1]


class RangeFacts(Struct, frozen=True):
    """A range, as its metaranges describe it."""

    count: int  # records
    min_key: bytes  # first key, only for the order among ranges
    max_key: bytes
    head: bool = False  # whether it is in a branch head


# By range id.
type Ranges = dict[str, RangeFacts]


def unite_ranges(ranges: Ranges, found: Iterable[tuple[str, RangeFacts]]) -> None:
    """Add `found` to `ranges`; raises FormatError if two metaranges disagree."""
    for range_id, facts in found:
        there = ranges.setdefault(range_id, facts)
        if (there.count, there.max_key) != (facts.count, facts.max_key):
            raise FormatError(
                f"range {range_id} has {there.count} records in one metarange and {facts.count} in another."
                " Nothing was deleted."
            )
        if facts.head and not there.head:
            ranges[range_id] = replace(there, head=True)


def ranges_table(ranges: Ranges) -> pa.Table:
    """Return ranges as rows (`SCHEMA`), in the order of their keys: neighbours share blocks, decoded once."""
    ordered = sorted(ranges.items(), key=lambda item: (item[1].min_key, item[0]))
    return pa.table(
        {
            "range_id": [range_id for range_id, _ in ordered],
            "count": [facts.count for _, facts in ordered],
            "min_key": [facts.min_key for _, facts in ordered],
            "max_key": [facts.max_key for _, facts in ordered],
            "head": [facts.head for _, facts in ordered],
        },
        schema=SCHEMA,
    )


def read_facts(table: pa.Table) -> Iterator[tuple[str, RangeFacts]]:
    """Yield the ranges of a table of `ranges_table`."""
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    for range_id, *facts in zip(*columns, strict=True):
        yield range_id, RangeFacts(*facts)


class RangeShare(Struct, frozen=True, kw_only=True):
    """The rows from `first` up to `stop` of a table of ranges: the work of one task."""

    table: PartInfo
    first: int
    stop: int

    def read(self, folder: RunFolder) -> Ranges:
        """Read the ranges, in the order of their keys."""
        rows = folder.read_part(self.table).slice(self.first, self.stop - self.first)
        return dict(read_facts(rows))


def share_ranges(table: PartInfo, num_tasks: int) -> list[RangeShare]:
    """Split a table of ranges into shares, at most one for each task and none empty."""
    chunks = in_chunks(range(table.rows), num_tasks)
    return [RangeShare(table=table, first=chunk[0], stop=chunk[-1] + 1) for chunk in chunks]


def find_range_files(reader: ObjectReader, read_before: Iterable[str]) -> tuple[Ranges, list[str]]:
    """Find the range files of the namespace, with or without a metarange, for repositories without rules; return them
    and the names of the opened files.

    The content of a file decides: metaranges, refs dumps and files that are not tables are skipped. Files in
    `read_before` (ranges, metaranges, files opened by earlier runs) never change and are not opened.
    """
    have = set(read_before)
    listed = ((info.key.removeprefix(METADATA), info) for info in reader.list_level(METADATA).objects)
    unread = {name: info for name, info in listed if name not in have}
    tables = {name: info for name, info in unread.items() if is_table_id(name) or _is_table(reader, info)}
    ranges = {
        name: RangeFacts(table.records, b"", table.max_key)
        for name, table in open_tables(reader, tables)
        if kind_of(table) == RANGES and table.records
    }
    return ranges, list(unread)


def _is_table(reader: ObjectReader, info: ObjectInfo) -> bool:
    start = info.size - len(MAGIC)
    return info.size >= FOOTER_SIZE and reader.get_range(info.key, start, len(MAGIC)) == MAGIC


_INLINE = 64  # up to so many metaranges the driver reads itself: starting a job takes longer


class Metaranges(Struct):
    """The ranges of metaranges."""

    ranges: Ranges = field(default_factory=dict)  # none is marked as in a head
    named: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict)  # rows of `ranges` by metarange id

    def add(self, other: Metaranges) -> None:
        """Add other metaranges; raises FormatError if two disagree about a range."""
        unite_ranges(self.ranges, other.ranges.items())
        place = {range_id: row for row, range_id in enumerate(self.ranges)}
        rows = np.array([place[range_id] for range_id in other.ranges], np.int32)
        self.named.update((metarange_id, rows[found]) for metarange_id, found in other.named.items())

    def lacking(self, metaranges: Iterable[str]) -> list[str]:
        """Return the ids that are not in `named`, in order; "" is skipped."""
        return sorted({item for item in metaranges if item and item not in self.named})

    def select(self, metaranges: Iterable[str], heads: Collection[str] = ()) -> Ranges:
        """Return the ranges of metaranges, all in `named` ("" is skipped), with those of `heads` marked."""
        ids = list(self.ranges)
        chosen = self._rows(metaranges)
        in_heads = set(self._rows(heads).tolist())
        return {ids[row]: replace(self.ranges[ids[row]], head=row in in_heads) for row in chosen.tolist()}

    def _rows(self, metaranges: Iterable[str]) -> npt.NDArray[np.int32]:
        found = [self.named[metarange_id] for metarange_id in metaranges if metarange_id]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int32)

    def to_tables(self, metaranges: Iterable[str]) -> tuple[pa.Table, pa.Table]:
        """Return ranges (`SCHEMA`), and rows of metarange id with the row numbers of its ranges."""
        wanted = sorted({metarange_id for metarange_id in metaranges if metarange_id})
        ranges = ranges_table(self.select(wanted))
        place = {range_id: row for row, range_id in enumerate(ranges["range_id"].to_pylist())}
        rows = np.array([place.get(range_id, -1) for range_id in self.ranges], np.int32)
        lists = [rows[self.named[metarange_id]] for metarange_id in wanted]
        offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        values = np.concatenate(lists) if lists else np.empty(0, np.int32)
        named = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values, pa.int32()))
        return ranges, pa.table({"metarange_id": pa.array(wanted, pa.string()), "ranges": named})

    @classmethod
    def from_tables(cls, ranges: pa.Table, named: pa.Table) -> Metaranges:
        """Read the tables of `to_tables`."""
        found = named["ranges"].combine_chunks()
        lists = np.split(found.values.to_numpy(), found.offsets.to_numpy()[1:-1]) if len(named) else []
        plain = {range_id: replace(facts, head=False) for range_id, facts in read_facts(ranges)}
        return cls(plain, dict(zip(named["metarange_id"].to_pylist(), lists, strict=True)))


class MetarangeResult(Struct, frozen=True, kw_only=True):
    """The tables of `Metaranges.to_tables`, as files."""

    ranges: PartInfo
    named: PartInfo


def read_metaranges(
    run: Run, runner: TaskRunner, where: str, metaranges: Iterable[str], earlier: Metaranges | None = None
) -> Metaranges:
    """Read metaranges that `earlier` lacks, in tasks if they are many; add them to it and return all. "" is skipped."""
    found = earlier or Metaranges()
    ids = found.lacking(metaranges)
    if len(ids) <= _INLINE:
        return with_metaranges(run.reader, found, ids)
    tasks = run.shares(runner, ids, _INLINE)
    for result in run.spread(runner, where, list_ranges, where, tasks, "metaranges", len(ids)):
        tables = run.folder.read_parts([result.ranges, result.named])
        found.add(Metaranges.from_tables(*tables))
    return found


def read_ranges(run: Run, runner: TaskRunner, where: str, metaranges: Iterable[str]) -> Ranges:
    """Read metaranges, and return their ranges; see `read_metaranges`."""
    ids = set(metaranges)
    return read_metaranges(run, runner, where, ids).select(ids)


@partition_function
def list_ranges(run: WorkerRun, where: str, ids: list[str]) -> MetarangeResult:
    """Read metaranges and write their ranges; `where` is the folder of the files, in the run folder."""
    ranges, named = read_files(run.open_store(), ids, run.progress).to_tables(ids)
    number = int(run.task)
    return MetarangeResult(
        ranges=run.folder.write_table(where, number, ranges, "ranges"),
        named=run.folder.write_table(where, number, named, "metaranges"),
    )


def read_files(reader: ObjectReader, ids: Sequence[str], progress: Progress | None = None) -> Metaranges:
    """Read metaranges in this process."""
    metaranges, place = MetarangeReader(), dict[str, int]()
    rows: dict[Block, npt.NDArray[np.int32]] = {}
    named: dict[str, npt.NDArray[np.int32]] = {}
    try:
        for key, data in get_files(reader, ids):
            metarange_id = key.removeprefix(METADATA)
            pieces = [np.empty(0, np.int32)]
            for block in metaranges.read(data, key, metarange_id):
                if block not in rows:
                    infos = metaranges.decode(block, key)
                    rows[block] = np.array(
                        [place.setdefault(info.id, len(place)) for info in infos], np.int32
                    )
                pieces.append(rows[block])
            named[metarange_id] = np.concatenate(pieces)
            if progress is not None:
                progress.add(1)
    except NotFoundError as error:
        raise RefusedError(
            f"a metarange of an active commit is missing: {error}. Its live objects are unknown."
            " Nothing was deleted. Restore the file (from a backup or an older version of the bucket; `dredge gc"
            " metadata --note` restores files deleted by `metadata = delete`), then start a new run."
        ) from None
    ranges: Ranges = {}
    found = (
        (info.id, RangeFacts(info.count, info.min_key, info.max_key)) for info in metaranges.infos.values()
    )
    unite_ranges(ranges, found)
    return Metaranges(ranges, named)


def with_metaranges(reader: ObjectReader, known: Metaranges, wanted: Iterable[str]) -> Metaranges:
    """Add metaranges to the known ones, and return all; "" is skipped."""
    unread = known.lacking(wanted)
    if unread:
        known.add(read_files(reader, unread))
    return known


def read_leniently(reader: ObjectReader, ids: Sequence[str]) -> tuple[Metaranges, dict[str, DredgeError]]:
    """Read metaranges; return the readable ones, and the error of each other one. Raises UnavailableError."""
    try:
        return read_files(reader, ids), {}
    except UnavailableError:
        raise
    except DredgeError:
        found, errors = Metaranges(), dict[str, DredgeError]()
    for item in ids:
        try:
            found.add(read_files(reader, [item]))
        except UnavailableError:
            raise
        except DredgeError as error:
            errors[item] = error
    return found, errors


class RangeHashes(Struct, frozen=True):
    """A range in the committed index."""

    range_id: str
    count: int  # records, verified
    outside: int  # records with an address outside the namespace, so without a hash
    addresses: Hashes  # of all possible keys of its entries, sorted and distinct
    sizes: Hashes  # of its entries, in bytes, sorted and distinct


def decode(files: Iterable[tuple[str, bytes]], ranges: Ranges, keys: Keys) -> Iterator[RangeHashes]:
    """Decode range files (key and content; fastest in the order of their first keys) and compare them with their
    facts from metaranges. Raises FormatError: damaged, or not the range of its name and metarange."""
    expected = {
        METADATA + range_id: Expected(facts.count, facts.max_key) for range_id, facts in ranges.items()
    }
    if keys.paths:
        yield from _decode_paths(files, expected, keys)
        return
    decoder = RangeDecoder(_COLUMNS, expected)
    for key, data in files:
        kinds, addresses, sizes = decoder.read_numbers(key, data)
        rows, outside = len(kinds), 0
        if (kinds != AddressType.RELATIVE).any():
            addresses, outside = _resolved(data, key, addresses, keys)
        elif not keys.own:
            addresses, outside = addresses[:0], rows
        range_id = key.removeprefix(METADATA)
        yield RangeHashes(range_id, rows, outside, unite([addresses]), unite([sizes]))


def _decode_paths(
    files: Iterable[tuple[str, bytes]], expected: Mapping[str, Expected], keys: Keys
) -> Iterator[RangeHashes]:
    pattern = re.compile("|".join(f"(?:{compile_glob(glob).pattern})" for glob in keys.paths), re.DOTALL)
    for key, data in files:
        rows = read_addresses(data, key, ("key", "address", "address_type"), expected[key])
        # In a path that is not UTF-8, each odd byte is matched as one character.
        paths = (path.decode("utf-8", "surrogateescape") for path in rows["key"].to_pylist())
        matches = pa.array([pattern.fullmatch(path) is not None for path in paths], pa.bool_())
        found = unite([hash64(_keys_of(rows.filter(matches), keys))])
        yield RangeHashes(key.removeprefix(METADATA), rows.num_rows, 0, found, NONE)


def _resolved(data: bytes, key: str, hashes: Hashes, keys: Keys) -> tuple[Hashes, int]:
    rows = read_addresses(data, key)
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    found, outside = _other_keys(rows.filter(pc.invert(relative)), keys.namespace)
    if not keys.own:
        return hash64(found), outside + pc.sum(relative).as_py()
    return np.concatenate([hashes[relative.to_numpy(False)], hash64(found)]), outside


def decode_keys(data: bytes, key: str, keys: Keys) -> pa.Array:
    """Return every possible key of the entries of a range. Raises FormatError if damaged."""
    return _keys_of(read_addresses(data, key), keys)


def _keys_of(rows: pa.RecordBatch, keys: Keys) -> pa.Array:
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    found, _ = _other_keys(rows.filter(pc.invert(relative)), keys.namespace)
    return pa.concat_arrays([rows["address"].filter(relative), found]) if keys.own else found


def _other_keys(rows: pa.RecordBatch, namespace: str) -> tuple[pa.Array, int]:
    """The possible keys of full addresses, and the number of addresses outside the namespace."""
    pairs = zip(rows["address"].to_pylist(), rows["address_type"].to_pylist(), strict=True)
    readings = [address_readings(address, kind, namespace) for address, kind in pairs]
    return pa.array([key for found in readings for key in found], pa.string()), readings.count(())


class HeadEntries(Struct, frozen=True):
    """Entries of a range as columns, in key order."""

    paths: pa.BinaryArray  # raw bytes; a path need not be UTF-8
    sizes: Hashes  # in bytes


def decode_entries(
    files: Iterable[tuple[str, bytes]], counts: Mapping[str, int]
) -> Iterator[tuple[str, HeadEntries]]:
    """Decode ranges with their paths (key and content; `counts`: records by range id); yields them with their ids.
    Raises FormatError if damaged, or with another number of records."""
    expected = {METADATA + range_id: Expected(count, b"") for range_id, count in counts.items()}
    for key, rows in decode_ranges(files, ("key", "size"), expected):
        sizes = rows["size"].to_numpy().astype(np.uint64)
        yield key.removeprefix(METADATA), HeadEntries(rows["key"], sizes)


# Folder for rules about paths: in the folder of a step, and beside the committed index.
PATHS = "paths"


class KeptSet(Struct, frozen=True):
    """Commits kept beyond the server's answer."""

    name: str  # unique, for the report
    why: str  # half a sentence for the report
    commits: frozenset[str]  # ids; the server or other sets may keep them as well
    # only entries with a path that matches one of these patterns; () for every entry
    paths: tuple[str, ...] = ()


class Extra(Struct, frozen=True):
    """The ranges of a kept set beyond the server's answer."""

    kept: KeptSet  # the set, without the commits of the server's answer
    ranges: Ranges  # of a set about paths only those with possible matches

    def to_details(self) -> dict[str, Any]:
        """Return `name`, `why`, and the numbers of `commits` and `ranges`, for the report."""
        kept = self.kept
        return {
            "name": kept.name,
            "why": kept.why,
            "commits": len(kept.commits),
            "ranges": len(self.ranges),
        }


def may_match(globs: Iterable[str], first: bytes, last: bytes) -> bool:
    """Whether a path from `first` to `last` (UTF-8) may match one of the patterns."""
    for glob in globs:
        prefix = re.split(r"[*?\[\\]", glob, maxsplit=1)[0].encode()  # the literal text at its start
        if first[: len(prefix)] <= prefix <= last:
            return True
    return False


def find_extra(
    run: Run,
    runner: TaskRunner,
    where: str,
    kept: Iterable[KeptSet],
    metarange_of: Callable[[str], str],
    named: Metaranges,
    without: Collection[str],
) -> list[Extra]:
    """Find the ranges of kept sets beyond those of the server's answer (`without`)."""
    extras = []
    for found in kept:
        wanted = {metarange_of(commit) for commit in found.commits} - {""}
        unread = wanted - named.named.keys()
        ranges = named.select(wanted - unread)
        if unread:
            ranges |= read_metaranges(run, runner, f"{where}/{PATHS}", unread).select(unread)
        extra = {item: facts for item, facts in ranges.items() if item not in without}
        if found.paths:
            extra = {
                item: facts
                for item, facts in extra.items()
                if may_match(found.paths, facts.min_key, facts.max_key)
            }
        extras.append(Extra(found, extra))
    return extras
