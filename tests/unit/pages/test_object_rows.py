"""Damage of a part is noticed where its rows are shown."""

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.pages.object_rows import GroupedPart
from dredge.runs.folder import RunFolder
from dredge.runs.parts import GROUP_ROWS
from dredge.runs.payload import PartInfo
from dredge.storage import ObjectWriter, open_writer

GROUPED_ROWS = 4 * GROUP_ROWS
TABLE = pa.table(
    {
        "address": [f"data/{number:04d}" + "x" * 20 for number in range(GROUPED_ROWS)],
        "size": list(range(GROUPED_ROWS)),
        "reason": ["expired"] * GROUPED_ROWS,
        "code": pa.nulls(GROUPED_ROWS, pa.string()),
        "hash": pa.array(range(GROUPED_ROWS), pa.uint64()),
    }
)


@pytest.fixture
def grouped_writer() -> ObjectWriter:
    return open_writer("memory://groups")


@pytest.fixture
def part(grouped_writer: ObjectWriter) -> PartInfo:
    return RunFolder(grouped_writer, "run").write_table("subtract", 0, TABLE, grouped=True)


def test_damage_is_noticed_where_it_is_read(grouped_writer: ObjectWriter, part: PartInfo) -> None:
    data = bytearray(grouped_writer.get(part.key))
    metadata = GroupedPart(grouped_writer, part).metadata
    chunk = metadata.row_group(1).column(TABLE.column_names.index("hash"))
    data[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 1
    grouped_writer.put(part.key, bytes(data))
    assert GroupedPart(grouped_writer, part).read([0, 2], ["hash"]).num_rows == 2 * GROUP_ROWS
    with pytest.raises(FormatError):
        GroupedPart(grouped_writer, part).read([1], ["hash"])


def test_a_part_that_is_gone_short_or_another_is_said_to_be(
    grouped_writer: ObjectWriter, part: PartInfo
) -> None:
    other = RunFolder(grouped_writer, "run").write_table(
        "subtract", 1, TABLE.slice(0, 3 * GROUP_ROWS), grouped=True
    )
    grouped_writer.put(part.key, grouped_writer.get(other.key))
    with pytest.raises(FormatError):
        _ = GroupedPart(grouped_writer, part).metadata
    longer = PartInfo(other.name, GROUPED_ROWS, other.size_bytes, other.sha256, other.key)
    with pytest.raises(FormatError):
        _ = GroupedPart(grouped_writer, longer).metadata
    gone = PartInfo("subtract/gone.parquet", GROUPED_ROWS, part.size_bytes, part.sha256)
    with pytest.raises(FormatError):
        _ = GroupedPart(grouped_writer, gone).metadata
