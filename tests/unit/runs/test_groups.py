"""A part can be read a group of rows at a time: only the bytes that it takes, and never damaged ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.runs import parts
from dredge.runs.folder import RunFolder
from dredge.runs.parts import GroupedPart
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectWriter, open_writer

ROWS = 40
TABLE = pa.table(
    {
        "address": [f"data/{number:04d}" + "x" * 200 for number in range(ROWS)],
        "size": list(range(ROWS)),
        "reason": ["expired"] * ROWS,
        "code": pa.nulls(ROWS, pa.string()),
        "hash": pa.array(range(ROWS), pa.uint64()),
    }
)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ObjectWriter:
    monkeypatch.setattr(parts, "GROUP_ROWS", 10)
    return open_writer("memory://groups")


@pytest.fixture
def part(writer: ObjectWriter) -> PartInfo:
    return RunFolder(writer, "run").write_table("subtract", 0, TABLE, grouped=True)


def test_damage_is_noticed_where_it_is_read(writer: ObjectWriter, part: PartInfo) -> None:
    data = bytearray(writer.get(part.key))
    metadata = GroupedPart(writer, part).metadata
    chunk = metadata.row_group(1).column(TABLE.column_names.index("hash"))
    data[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 1
    writer.put(part.key, bytes(data))
    assert GroupedPart(writer, part).read([0, 2], ["hash"]).num_rows == 20
    with pytest.raises(FormatError):
        GroupedPart(writer, part).read([1], ["hash"])


def test_a_part_that_is_gone_short_or_another_is_said_to_be(writer: ObjectWriter, part: PartInfo) -> None:
    other = RunFolder(writer, "run").write_table("subtract", 1, TABLE.slice(0, 30), grouped=True)
    writer.put(part.key, writer.get(other.key))
    with pytest.raises(FormatError):
        _ = GroupedPart(writer, part).metadata
    longer = PartInfo(other.name, ROWS, other.size_bytes, other.sha256, other.key)
    with pytest.raises(FormatError):
        _ = GroupedPart(writer, longer).metadata
    gone = PartInfo("subtract/gone.parquet", ROWS, part.size_bytes, part.sha256)
    with pytest.raises(FormatError):
        _ = GroupedPart(writer, gone).metadata
