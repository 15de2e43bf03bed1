"""The strict reader gives what a real server wrote, or an error that names file and place."""

from __future__ import annotations

import json
import random

import pytest

from dredge.errors import FormatError
from dredge.lakefs.files.sstable import METARANGES, RANGES, read_table, write_table
from tests.support.lakefs_tables import CORRUPT, Fixture, fixture, fixtures, key_bytes

CASES = json.loads((CORRUPT / "cases.json").read_text())["cases"]


@pytest.mark.parametrize("item", fixtures(), ids=lambda item: item.name)
def test_every_file_of_a_server_is_read_whole_and_has_its_id(item: Fixture) -> None:
    table = read_table(item.data, item.name, expected_id=item.id, expected_count=len(item.records))
    assert table.id == item.id
    assert table.kind == item.kind
    assert (table.entity is not None) == item.dump
    assert [record.key for record in table.records] == [key_bytes(row["key"]) for row in item.records]


@pytest.mark.parametrize(
    "item", [i for i in fixtures() if i.path.suffix == ".sst"], ids=lambda item: item.name
)
def test_properties_are_read_as_they_stand(item: Fixture) -> None:
    properties = read_table(item.data, item.name).properties
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
    with pytest.raises(FormatError, match="1 records, where 122 are expected"):
        read_table(data, "other", expected_count=122)


@pytest.mark.parametrize("item", [i for i in fixtures() if i.dump], ids=lambda item: item.name)
def test_refs_dumps_are_never_taken_for_tables_of_objects(item: Fixture) -> None:
    assert read_table(item.data, item.name).entity in ("commit", "branch", "tag")
    for kind in (RANGES, METARANGES):
        with pytest.raises(FormatError, match="refs dump"):
            read_table(item.data, item.name, kind=kind)


def test_ranges_and_metaranges_are_not_taken_for_each_other() -> None:
    with pytest.raises(FormatError, match="a table of metaranges, where one of ranges"):
        read_table(fixture("metarange_empty").data, "m", kind=RANGES)
    with pytest.raises(FormatError, match="a table of ranges, where one of metaranges"):
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
    assert read_table(bytes(data), name) == truth


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
