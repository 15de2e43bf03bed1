"""The column reader says what the strict reader says, or raises."""

import json
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest as xxh64

from dredge import compiled
from dredge.errors import FormatError
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.sstable import few, read_table
from dredge.lakefs.files.sstable.columns import COLUMNS, decode_ranges, read_addresses
from dredge.lakefs.files.sstable.layout import Expected
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.tables import BlockSizes, put_value, write_table
from tests.support.lakefs_tables import CORRUPT, Fixture, fixture, fixtures, key_bytes

compiled.kernels()  # loaded kernels read files of any size

CASES = json.loads((CORRUPT / "cases.json").read_text())["cases"]
RANGES = fixtures("ranges", dumps=False)


def strict_columns(data: bytes) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in ("address", "address_type", "size", "etag", "key")}
    for key, raw in read_table(data, "strict", kind="ranges").records:
        entry = Entry.decode(Value.decode(raw, "strict").data, "strict")
        found["address"].append(entry.address)
        found["address_type"].append(int(entry.address_type))
        found["size"].append(entry.size)
        found["etag"].append(entry.etag)
        found["key"].append(key)
    found["address_hash"] = [xxh64(address.encode(), 42) for address in found["address"]]
    found["content_hash"] = [
        xxh64(etag.encode(), size % (1 << 64))
        for size, etag in zip(found["size"], found["etag"], strict=True)
    ]
    return found


@pytest.mark.parametrize("item", RANGES, ids=lambda item: item.name)
def test_every_range_of_a_server_decodes_to_its_truth(item: Fixture) -> None:
    batch = read_addresses(
        item.data, item.name, COLUMNS, Expected(len(item.records), key_bytes(item.records[-1]["key"]))
    )
    batch.validate(full=True)
    rows = batch.to_pydict()
    assert list(rows) == list(COLUMNS)
    for name in ("address", "address_type", "size", "etag"):
        assert rows[name] == [row[name] for row in item.records]
    assert rows["key"] == [key_bytes(row["key"]) for row in item.records]
    assert rows == strict_columns(item.data)


@pytest.mark.parametrize("item", RANGES, ids=lambda item: item.name)
def test_a_range_without_the_kernels_has_the_same_rows(item: Fixture) -> None:
    last = key_bytes(item.records[-1]["key"])
    rows = few.read_strictly(item.data, item.name, few.COLUMNS, Expected(len(item.records), last))
    rows.validate(full=True)
    assert rows.equals(read_addresses(item.data, item.name, few.COLUMNS))
    for count, key in ((len(item.records) + 1, last), (len(item.records), last + b"x")):
        with pytest.raises(FormatError):
            few.read_strictly(item.data, item.name, few.COLUMNS, Expected(count, key))


def test_few_ranges_load_no_kernels_and_many_or_damaged_ones_do() -> None:
    code = (
        "import sys; from pathlib import Path; from dredge.errors import FormatError;"
        "from dredge.compiled import are_loaded; from dredge.lakefs.files.sstable.columns import read_addresses;"
        "data = Path(sys.argv[1]).read_bytes(); damaged = data[:5] + bytes(5) + data[10:];"
        "rows = read_addresses(data, 'x'); print(are_loaded())\n"
        "if sys.argv[2] == 'damaged':\n"
        "    try: read_addresses(damaged, 'x')\n"
        "    except FormatError: print('refused', are_loaded())\n"
        "else:\n"
        "    while not are_loaded(): assert read_addresses(data, 'x').equals(rows)\n"
        "    assert read_addresses(data, 'x').equals(rows)\n"
    )
    path = str(fixture("range_odd_keys").path)
    for kind, said in (("damaged", "False\nrefused True\n"), ("many", "False\n")):
        command = [sys.executable, "-c", code, path, kind]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == said


@pytest.mark.parametrize(
    "wanted", [("address",), ("key",), ("etag", "address_hash"), ("size", "address_type"), ()]
)
def test_columns_come_as_asked_for(wanted: tuple[str, ...]) -> None:
    item = fixture("range_odd_keys")
    truth = strict_columns(item.data)
    assert read_addresses(item.data, "odd", wanted).to_pydict() == {name: truth[name] for name in wanted}


def test_a_range_without_records_has_no_rows() -> None:
    batch = read_addresses(write_table([]).data, "empty", COLUMNS)
    assert batch.num_rows == 0


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case]["expect"] == "error"])
def test_every_damaged_file_is_refused_by_name_and_place(case: str) -> None:
    with pytest.raises(FormatError, match=rf"^{case}\.sst: .*\d"):
        read_addresses((CORRUPT / f"{case}.sst").read_bytes(), f"{case}.sst")


def test_a_sound_range_that_is_not_the_one_expected_is_refused() -> None:
    data = (CORRUPT / "other_table.sst").read_bytes()
    expected = fixture("range_incompressible")
    last = key_bytes(expected.records[-1]["key"])
    with pytest.raises(FormatError, match="1 records instead of 122"):
        read_addresses(data, "other", expected=Expected(122, last))
    with pytest.raises(FormatError, match="b'noise/zz-large-compressible'"):
        read_addresses(data, "other", expected=Expected(1, last))


@pytest.mark.parametrize(
    "item", [i for i in fixtures() if i.dump or i.kind == "metaranges"], ids=lambda i: i.name
)
def test_dumps_and_metaranges_are_never_taken_for_ranges(item: Fixture) -> None:
    with pytest.raises(FormatError, match="refs dump" if item.dump else "a table of metaranges"):
        read_addresses(item.data, item.name)


def test_prefixes_that_run_into_the_trailer_of_the_previous_key_are_read_right() -> None:
    keys = [
        b"a",
        b"a\x01",
        b"a\x01\x00",
        b"a\x01\x00\x00\x00\x00\x00\x00\x00",
        b"a\x01\x00\x00\x00\x00\x00\x00\x00b",
    ]
    keys += [
        b"b" * 300,
        b"b" * 300 + b"\x01",
        b"b" * 300 + b"\x01" + bytes(7),
        b"b" * 300 + b"\x01" + bytes(8),
    ]
    records = [(key, put_value(Entry(f"data/{number}").value())) for number, key in enumerate(keys)]
    batch = read_addresses(write_table(records).data, "trailer", ("key", "address"))
    assert batch["key"].to_pylist() == keys
    assert batch["address"].to_pylist() == [f"data/{number}" for number in range(len(keys))]


TEXTS = st.one_of(
    st.text(max_size=12), st.text("ab/é漢😀\x00", max_size=60), st.text("x", min_size=100, max_size=300)
)

ENTRIES = st.builds(
    Entry,
    address=TEXTS,
    address_type=st.sampled_from(AddressType),
    size=st.integers(-(1 << 63), (1 << 63) - 1),
    etag=TEXTS,
    metadata=st.dictionaries(st.text(max_size=3), TEXTS, max_size=2),
    content_type=st.text(max_size=5),
)

KEYS = st.one_of(st.binary(max_size=30), st.text("ab\x00\x01", max_size=14).map(str.encode))
SIZES = st.builds(
    BlockSizes,
    data=st.sampled_from([1, 200, 4096, 1 << 20]),
    index=st.sampled_from([1, 60, 4096]),
    restart_interval=st.sampled_from([1, 3, 16, 1000]),
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, ENTRIES, max_size=60), SIZES)
def test_any_entries_in_any_layout_decode_as_the_strict_reader_says(
    entries: dict[bytes, Entry], sizes: BlockSizes
) -> None:
    data = write_table([(key, put_value(entries[key].value())) for key in sorted(entries)], sizes=sizes).data
    truth = strict_columns(data)
    batch = read_addresses(data, "any", COLUMNS)
    batch.validate(full=True)
    assert batch.to_pydict() == truth


@pytest.mark.parametrize(
    "name", ["range_one_record", "range_odd_keys", "range_incompressible", "range_large"]
)
def test_no_flipped_bit_ever_gives_other_rows(name: str) -> None:
    data = bytearray(fixture(name).data)
    for spot in random.Random(11).sample(range(len(data) * 8), 300):
        data[spot // 8] ^= 1 << spot % 8
        with pytest.raises(FormatError):
            read_addresses(bytes(data), name)
        data[spot // 8] ^= 1 << spot % 8
    read_addresses(bytes(data), name)


@pytest.mark.parametrize("name", ["range_of_many_1", "range_odd_keys"])
def test_no_shortened_file_is_read(name: str) -> None:
    data = fixture(name).data
    for size in range(0, len(data), 7):
        with pytest.raises(FormatError):
            read_addresses(data[:size], name)


def test_rows_are_kept_when_later_ranges_are_decoded() -> None:
    items = [
        fixture("range_large"),
        fixture("range_odd_keys"),
        fixture("range_large"),
        fixture("range_incompressible"),
    ]
    batches = list(decode_ranges([(item.name, item.data) for item in items], COLUMNS))
    for item, (name, batch) in zip(items, batches, strict=True):
        assert name == item.name
        assert batch.to_pydict() == strict_columns(item.data)


def test_expectations_are_held_against_each_range_by_its_name() -> None:
    one, two = fixture("range_of_many_0"), fixture("range_of_many_1")
    files = [("one", one.data), ("two", two.data)]
    right = {
        item: Expected(len(f.records), key_bytes(f.records[-1]["key"]))
        for item, f in (("one", one), ("two", two))
    }
    assert [name for name, _ in decode_ranges(files, expected=right)] == ["one", "two"]
    with pytest.raises(FormatError, match=r"^two: "):
        list(decode_ranges(files, expected={"one": right["one"], "two": right["one"]}))
