"""The strict reader gives what a real server wrote, or an error that names file and place."""

import json
import random

import pytest

from dredge.errors import FormatError
from dredge.lakefs.files.sstable import METARANGES, RANGES, SeekableTable, read_table
from dredge.lakefs.files.sstable.layout import Expected
from lakefs_embedded.committed.tables import BlockSizes, write_table
from tests.support.lakefs_tables import CORRUPT, Fixture, fixture, fixtures, key_bytes

CASES = json.loads((CORRUPT / "cases.json").read_text())["cases"]


@pytest.mark.parametrize("item", fixtures(), ids=lambda item: item.name)
def test_every_file_of_a_server_is_read_whole_and_has_its_id(item: Fixture) -> None:
    table = read_table(item.data, item.name, expected_id=item.id, expected=Expected(len(item.records)))
    assert table.id == item.id
    assert table.envelope.kind == item.kind
    assert (table.envelope.entity is not None) == item.dump
    assert [record.key for record in table.records] == [key_bytes(row["key"]) for row in item.records]


@pytest.mark.parametrize(
    "item", [i for i in fixtures() if i.path.suffix == ".sst"], ids=lambda item: item.name
)
def test_properties_are_read_as_they_stand(item: Fixture) -> None:
    properties = read_table(item.data, item.name).envelope.properties
    truth = json.loads(item.path.with_suffix(".json").read_text())["properties"]
    assert set(properties) == set(truth)
    for key, value in truth.items():
        if isinstance(value, str):
            assert properties[key].decode() == value


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case]["expect"] == "error"])
def test_every_damaged_file_is_refused_by_name_and_place(case: str) -> None:
    with pytest.raises(FormatError, match=rf"^{case}\.sst: .*\d"):
        read_table((CORRUPT / f"{case}.sst").read_bytes(), f"{case}.sst")


def test_a_sound_file_of_another_table_is_refused_by_its_id_and_by_its_count() -> None:
    data = (CORRUPT / "other_table.sst").read_bytes()
    expected = fixture("range_incompressible")
    with pytest.raises(FormatError, match=f"not {expected.id}"):
        read_table(data, "other", expected_id=expected.id)
    with pytest.raises(FormatError, match="1 records instead of 122"):
        read_table(data, "other", expected=Expected(122))


@pytest.mark.parametrize("item", [i for i in fixtures() if i.dump], ids=lambda item: item.name)
def test_refs_dumps_are_never_taken_for_tables_of_objects(item: Fixture) -> None:
    assert read_table(item.data, item.name).envelope.entity in ("commit", "branch", "tag")
    for kind in (RANGES, METARANGES):
        with pytest.raises(FormatError, match="refs dump"):
            read_table(item.data, item.name, kind=kind)


def test_ranges_and_metaranges_are_not_taken_for_each_other() -> None:
    with pytest.raises(FormatError, match="a table of metaranges, not of ranges"):
        read_table(fixture("metarange_empty").data, "m", kind=RANGES)
    with pytest.raises(FormatError, match="a table of ranges, not of metaranges"):
        read_table(fixture("range_one_record").data, "r", kind=METARANGES)


@pytest.mark.parametrize(
    "name", ["range_one_record", "range_odd_keys", "metarange_two_level", "metarange_empty"]
)
def test_no_flipped_bit_ever_gives_other_records(name: str) -> None:
    data = bytearray(fixture(name).data)
    truth = read_table(bytes(data), name)
    spots = range(len(data) * 8)
    chosen = spots if len(spots) < 3_000 else random.Random(7).sample(spots, 300)
    for spot in chosen:
        data[spot // 8] ^= 1 << spot % 8
        with pytest.raises(FormatError):
            read_table(bytes(data), name)
        data[spot // 8] ^= 1 << spot % 8
    assert read_table(bytes(data), name).records == truth.records


@pytest.mark.parametrize("name", ["range_one_record", "range_of_many_1"])
def test_no_shortened_file_is_read(name: str) -> None:
    data = fixture(name).data
    for size in range(len(data)):
        with pytest.raises(FormatError):
            read_table(data[:size], name)
        with pytest.raises(FormatError):
            read_table(data[size + 1 :], name)


def test_a_file_pasted_behind_another_is_not_read() -> None:
    data = fixture("range_one_record").data
    with pytest.raises(FormatError):
        read_table(data + data, "twice")


def test_prefixes_that_run_into_the_trailer_of_the_previous_key_are_read_right() -> None:
    keys = [
        b"a",
        b"a\x01",
        b"a\x01\x00",
        b"a\x01\x00\x00\x00\x00\x00\x00\x00",
        b"a\x01\x00\x00\x00\x00\x00\x00\x00b",
    ]
    table = write_table([(key, b"\x00\x00") for key in keys])
    assert [record.key for record in read_table(table.data, "trailer").records] == keys


SERVERS = [item for item in fixtures() if item.kind == RANGES and not item.dump]


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
