"""From commits to ranges: which range files the active commits name, and how many records each must have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.context import Context
from dredge.graveler.committed.ranges import RangeInfo, is_table_id
from dredge.graveler.sstable import METARANGES, RANGES, read_table
from dredge.graveler.sstable.envelope import read_envelope
from dredge.graveler.sstable.layout import FOOTER_SIZE, MAGIC
from dredge.runs.folder import RunFolder
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, deal
from dredge.storage import ObjectReader, open_reader, open_writer

METADATA = "_lakefs/"
SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("head", pa.bool_(), nullable=False),
    ]
)
_INLINE = 64
"""So few metaranges are read by the driver itself; starting a job would take longer."""


@dataclass(frozen=True, slots=True)
class RangeFacts:
    """What metaranges say of a range.

    Attributes:
        count: records.
        min_key: where it belongs among others; only a hint.
        max_key: its last key.
        head: whether the head of some branch has it.
    """

    count: int
    min_key: bytes
    max_key: bytes
    head: bool = False


type Ranges = dict[str, RangeFacts]


def read_ranges(
    context: Context, runner: TaskRunner, where: str, metaranges: Iterable[str], heads: Collection[str] = ()
) -> Ranges:
    """Read metaranges and unite the ranges they name.

    Args:
        context: of the run.
        runner: spreads the work when there are many.
        where: step folder for parts and progress.
        metaranges: ids; the empty one names nothing.
        heads: those of them that a branch's head has.

    Raises:
        RefusedError: one is missing.
        FormatError: one is damaged, or two of them disagree about a range.
    """
    ids = sorted({metarange for metarange in metaranges if metarange})
    if len(ids) <= _INLINE:
        return _named_by(context.reader, ids, heads)
    hands = deal(ids, context.hands(runner, len(ids) // _INLINE + 1))
    tasks = [
        {"index": index, "ids": hand, "heads": [metarange for metarange in hand if metarange in heads]}
        for index, hand in enumerate(hands)
    ]
    config = {"where": where}
    results = context.spread(runner, where, list_ranges, config, tasks, "metaranges", len(ids))
    parts = [PartInfo.from_json(result["part"]) for result in results]
    ranges: Ranges = {}
    for table in context.folder.read_parts(parts):
        unite_ranges(ranges, facts_of(table))
    return ranges


def list_ranges(config: Json, task: Json) -> Json:
    """Read metaranges and write the ranges they name. A partition function.

    Args:
        config: doors, `where`, `progress`.
        task: `index`, `ids` and which of them are `heads`.
    """
    folder = RunFolder(open_writer(config["run_uri"]), config["run_id"])
    progress = Progress(folder, config["progress"], f"metaranges-{task['index']:05d}")
    ranges = _named_by(open_reader(config["namespace"]), task["ids"], set(task["heads"]), progress)
    part = folder.write_table(config["where"], task["index"], table_of(ranges), "ranges")
    return {"part": part.to_json()}


def find_range_files(context: Context, known: Sequence[str]) -> tuple[Ranges, int]:
    """Find every range file of the namespace, whoever may name it; used when every commit counts as active.

    Files are told apart by their content: metaranges and refs dumps are left out, and so is what is no table
    at all. A file whose name is a table's id but which cannot be read as one stops the run.

    Args:
        context: of the run.
        known: ids of ranges and metaranges that were read already.

    Returns:
        The other ranges, and how many files were looked at.

    Raises:
        FormatError: a damaged table.
    """
    have = set(known)
    names = [info.key for info in context.reader.list_level(METADATA).objects]
    unknown = [name for name in names if name.removeprefix(METADATA) not in have]
    tables = [name for name in unknown if _is_table(context.reader, name)]
    ranges: Ranges = {}
    for name, data in context.reader.get_many(tables):
        envelope = read_envelope(data, name, None, None)
        if envelope.kind == RANGES and envelope.entity is None and envelope.records:
            ranges[name.removeprefix(METADATA)] = RangeFacts(envelope.records, b"", envelope.max_key)
    return ranges, len(unknown)


def _is_table(reader: ObjectReader, name: str) -> bool:
    if is_table_id(name.removeprefix(METADATA)):
        return True
    size = reader.stat(name).size
    return size >= FOOTER_SIZE and reader.get_range(name, size - len(MAGIC), len(MAGIC)) == MAGIC


def _named_by(
    reader: ObjectReader, ids: Sequence[str], heads: Collection[str], progress: Progress | None = None
) -> Ranges:
    """Read metaranges. Those of successive commits name mostly the same ranges, which are then decoded
    once."""
    known: dict[bytes, RangeInfo] = {}
    in_heads: set[bytes] = set()
    try:
        for key, data in reader.get_many([METADATA + metarange for metarange in ids]):
            metarange_id = key.removeprefix(METADATA)
            records = read_table(data, key, kind=METARANGES, expected_id=metarange_id).records
            values = {record.value for record in records}
            if values - known.keys():
                for record in records:
                    if record.value not in known:
                        known[record.value] = RangeInfo.decode(record.key, record.value, key)
            if metarange_id in heads:
                in_heads |= values
            if progress is not None:
                progress.add(1)
    except NotFoundError as error:
        raise RefusedError(
            f"a metarange of an active commit is missing: {error}. Its objects cannot be told from garbage."
            " Nothing was deleted. Restore the file (a backup, an older version of the bucket), then start"
            " a new run."
        ) from None
    ranges: Ranges = {}
    unite_ranges(
        ranges,
        (
            (found.id, RangeFacts(found.count, found.min_key, found.max_key, value in in_heads))
            for value, found in known.items()
        ),
    )
    return ranges


def unite_ranges(ranges: Ranges, found: Iterable[tuple[str, RangeFacts]]) -> None:
    """Add ranges to those known; raises FormatError when two metaranges disagree about one."""
    for range_id, facts in found:
        known = ranges.setdefault(range_id, facts)
        if (known.count, known.max_key) != (facts.count, facts.max_key):
            raise FormatError(
                f"range {range_id} has {known.count} records in one metarange and {facts.count} in another."
                " Nothing was deleted."
            )
        if facts.head and not known.head:
            ranges[range_id] = replace(known, head=True)


def table_of(ranges: Ranges) -> pa.Table:
    """Ranges as rows, those with small keys first: neighbours share blocks, and are then decoded once."""
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


def facts_of(table: pa.Table) -> Iterable[tuple[str, RangeFacts]]:
    """Rows as ranges."""
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    for range_id, *facts in zip(*columns, strict=True):
        yield range_id, RangeFacts(*facts)
