"""A table of which some blocks are read gives what the strict reader gives, or an error."""

from __future__ import annotations

import random

import pytest

from dredge.errors import FormatError
from dredge.lakefs.files.sstable import RANGES, BlockSizes, SeekableTable, read_table, write_table
from tests.support.lakefs_tables import Fixture, fixtures

SERVERS = [item for item in fixtures() if item.kind == RANGES and not item.dump]


@pytest.mark.parametrize("item", SERVERS, ids=lambda item: item.name)
def test_from_every_key_on_a_servers_file_gives_the_same_records(item: Fixture) -> None:
    records = read_table(item.data, item.name).records
    table = SeekableTable(item.data, item.name, RANGES)
    assert (table.count, table.max_key) == (len(records), records[-1].key)
    chance = random.Random(item.name)
    keys = [record.key for record in chance.sample(records, min(len(records), 40))]
    for start in [b"", b"\xff" * 9, *keys, *(key + b"\0" for key in keys), *(key[:-1] for key in keys)]:
        assert list(table.records(start)) == [record for record in records if record.key >= start]


@pytest.mark.parametrize("item", SERVERS, ids=lambda item: item.name)
def test_places_by_chance_are_right_before_records_and_reach_all_of_them(item: Fixture) -> None:
    keys = [record.key for record in read_table(item.data, item.name).records]
    table = SeekableTable(item.data, item.name, RANGES)
    steps = 4 * len(keys)
    places = [table.place(step / steps) for step in range(steps)]
    behind = [
        next(record.key for record in table.records(place or b"") if record.key > (place or b""))
        for place in places
    ]
    assert behind == sorted(behind)
    assert set(behind) == set(keys)
    assert places[0] is None


def test_only_the_blocks_that_are_wanted_are_read() -> None:
    written = write_table(
        ((b"key %05d" % number, b"value %d" % number) for number in range(3000)), sizes=BlockSizes(data=400)
    )
    table = SeekableTable(written.data, "t", RANGES)
    found = table.records(b"key 01500")
    assert [next(found).key for _ in range(3)] == [b"key 01500", b"key 01501", b"key 01502"]
    assert len(table._read) <= 2 < len(table._blocks)
    assert next(table.records(b"key 01500")).value == b"value 1500"
    assert len(table._read) <= 2


def test_a_damaged_block_is_an_error_for_who_reads_it_and_a_damaged_index_for_everybody() -> None:
    written = write_table(
        ((b"key %05d" % number, b"value %d" % number) for number in range(3000)), sizes=BlockSizes(data=400)
    )
    table = SeekableTable(written.data, "t", RANGES)
    handle, _ = table._blocks[len(table._blocks) // 2]
    damaged = bytearray(written.data)
    damaged[handle.offset + 3] ^= 1
    table = SeekableTable(bytes(damaged), "t", RANGES)
    assert next(table.records(b"")).key == b"key 00000"
    with pytest.raises(FormatError, match="data block"):
        list(table.records(b""))
    damaged = bytearray(written.data)
    damaged[table._blocks[-1][0].end + 8] ^= 1
    with pytest.raises(FormatError):
        SeekableTable(bytes(damaged), "t", RANGES)
