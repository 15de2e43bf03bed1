"""Metaranges of successive commits are read as each of them alone, and damage in one is found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.errors import FormatError
from dredge.lakefs.files.ranges import MetarangeReader, RangeInfo, read_metarange
from dredge.lakefs.files.sstable import METARANGES
from lakefs_embedded.committed.tables import BlockSizes, WrittenTable, put_range, write_table

SMALL = BlockSizes(data=600)


def info(number: int, version: int = 0) -> RangeInfo:
    key = b"key%04d" % number
    return RangeInfo(f"{number * 1000 + version:064x}", key, key + b"z", 100, 1 + version)


def written(infos: list[RangeInfo]) -> WrittenTable:
    return write_table([(item.max_key, put_range(item)) for item in infos], METARANGES, SMALL)


def read(metaranges: MetarangeReader, table: WrittenTable, data: bytes | None = None) -> list[RangeInfo]:
    blocks = metaranges.read(table.data if data is None else data, "metarange", table.id)
    return [found for block in blocks for found in metaranges.decode(block, "metarange")]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.dictionaries(st.integers(0, 60), st.integers(0, 2), max_size=60), min_size=1, max_size=5))
def test_metaranges_that_share_blocks_are_read_as_alone(versions: list[dict[int, int]]) -> None:
    metaranges = MetarangeReader()
    for version in versions:
        infos = [info(*item) for item in sorted(version.items())]
        table = written(infos)
        assert read(metaranges, table) == infos == read_metarange(table.data, "alone")


def test_equal_blocks_are_decoded_once() -> None:
    infos = [info(number) for number in range(200)]
    metaranges = MetarangeReader()
    first = metaranges.read((table := written(infos)).data, "first", table.id)
    infos[100] = info(100, 1)
    second = metaranges.read((table := written(infos)).data, "second", table.id)
    new = {*second} - {*first}
    assert len(first) > 20
    assert 1 <= len(new) <= 3


def test_damage_is_found_beside_blocks_that_were_read_before() -> None:
    table = written([info(number) for number in range(40)])
    metaranges = MetarangeReader()
    read(metaranges, table)
    data = bytearray(table.data)
    for spot in range(0, 8 * len(data), 37):
        data[spot // 8] ^= 1 << spot % 8
        with pytest.raises(FormatError):
            read(metaranges, table, bytes(data))
        data[spot // 8] ^= 1 << spot % 8
    assert read(metaranges, table) == [info(number) for number in range(40)]


def test_a_metarange_under_the_name_of_another_is_refused() -> None:
    one, other = written([info(1), info(2)]), written([info(1), info(3)])
    metaranges = MetarangeReader()
    read(metaranges, one)
    with pytest.raises(FormatError):
        read(metaranges, one, other.data)


def test_a_metarange_that_lists_a_range_twice_is_refused() -> None:
    one, other = info(1), info(2)
    twice = RangeInfo(one.id, other.min_key, other.max_key, 100, 1)
    with pytest.raises(FormatError):
        read_metarange(written([one, twice]).data, "metarange")
