"""Damage that no checksum shows: the column reader must not make rows of it, nor lose any, nor crash."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge import compiled
from dredge.errors import FormatError
from dredge.kernels import interface as k
from dredge.lakefs.files.sstable import Block, read_table
from dredge.lakefs.files.sstable.columns import COLUMNS, decode_ranges, read_addresses
from dredge.lakefs.files.sstable.few import read_strictly
from dredge.lakefs.files.sstable.layout import Handle, checksum
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.tables import BlockSizes, put_uvarint, put_value, write_table
from tests.support.lakefs_tables import fixture
from tests.support.plain_rows import Stated, plain_rows
from tests.support.raw_tables import RawWriter, blocks_of, snappy, table_of_blocks

compiled.kernels()  # loaded kernels read files of any size


def one_block(body: bytes, *, stored: bytes | None = None, block_type: int = 1, count: int = 1) -> bytes:
    writer = RawWriter("ranges")
    writer.add_stored(snappy(body) if stored is None else stored, block_type, b"k")
    return writer.finish_as(count, b"k", 9 * count, 3)


def entry_block(*entries: tuple[int, bytes, bytes], restarts: Sequence[int] = (0,)) -> bytes:
    body = b"".join(
        put_uvarint(shared) + put_uvarint(len(key)) + put_uvarint(len(value)) + key + value
        for shared, key, value in entries
    )
    return body + b"".join(r.to_bytes(4, "little") for r in (*restarts, len(restarts)))


T = b"\x01" + bytes(7)
V = b"\x00\x00\x00"  # no identity, no data, one byte that is ignored
SOUND = entry_block((0, b"k" + T, V))


def test_the_frame_of_these_tests_is_sound() -> None:
    assert read_addresses(one_block(SOUND), "x", ("key",))["key"].to_pylist() == [b"k"]
    plain = one_block(SOUND, stored=SOUND, block_type=0)
    assert read_addresses(plain, "x", ("key",))["key"].to_pylist() == [b"k"]


def value(data: bytes) -> bytes:
    return b"\x00" + put_uvarint(2 * len(data)) + data


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "restart|1 records in 0 bytes"),
        (SOUND[:-1], "restart"),
        (entry_block(), "records"),
        (entry_block((0, b"k" + T, V), restarts=(0, 1)), "restart"),
        (entry_block((0, b"k" + T, V), restarts=(1,)), "restart"),
        (entry_block((0, b"k" + T, V), restarts=(0, 0)), "restart"),
        (entry_block((0, b"k" + T, V), restarts=()), "restart"),
        (SOUND[:-4] + b"\xff\xff\xff\xff", "restart"),
        (SOUND[:-4] + b"\x00\x00\x00\x40", "restart"),
        (entry_block((1, T, V)), "lengths"),
        (b"\x00\x09\x7f" + b"k" + T + b"\0\0\0" + bytes(4) + b"\1\0\0\0", "lengths"),
        (b"\x00\x7f\x03" + b"k" + T + b"\0\0\0" + bytes(4) + b"\1\0\0\0", "lengths"),
        (b"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00" + bytes(4) + b"\1\0\0\0", "lengths"),
        (b"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + bytes(4) + b"\1\0\0\0", "lengths"),
        (b"\x80" + bytes(4) + b"\1\0\0\0", "lengths"),
        (entry_block((0, b"k" + b"\x02" + bytes(7), V)), "plain record"),
        (entry_block((0, b"k" + b"\x00" + bytes(7), V)), "plain record"),
        (entry_block((0, b"k" + b"\x01" + bytes(6) + b"\x01", V)), "plain record"),
        (entry_block((0, b"kkk", V)), "plain record"),
        (entry_block((0, b"k" + T, V), (0, b"k" + T, V)), "come after"),
        (entry_block((0, b"k" + T, V), (1, T, V)), "come after"),
        (entry_block((0, b"k" + T, V), (9, b"", V)), "come after"),
        (entry_block((0, b"kk" + T, V), (1, T, V)), "come after"),
        (entry_block((0, b"kb" + T, V), (1, b"a" + T, V)), "come after"),
        (entry_block((0, b"k" + T, V), (1, b"a" + T, V)), "more records"),
        (entry_block((0, b"k" + T, b"")), "value"),
        (entry_block((0, b"k" + T, b"\x01\x00")), "value"),
        (entry_block((0, b"k" + T, b"\x40" + bytes(31))), "value"),
        (entry_block((0, b"k" + T, b"\x00")), "value"),
        (entry_block((0, b"k" + T, b"\x00\x02")), "value"),
        (entry_block((0, b"k" + T, value(b"\x0a"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x0a\x05abc"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x18"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x18" + b"\xff" * 10))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x00\x00"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x0b"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x09abcdefg"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x0dabc"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x0f"))), "no entry"),
        (entry_block((0, b"k" + T, value(b"\x30\x03"))), "address type"),
        (entry_block((0, b"k" + T, value(b"\x30" + b"\xff" * 9 + b"\x01"))), "address type"),
        (entry_block((0, b"k" + T, value(b"\x0a\x01\x80"))), "UTF-8"),
        (entry_block((0, b"k" + T, value(b"\x0a\x02\xc0\x80"))), "UTF-8"),
        (entry_block((0, b"k" + T, value(b"\x0a\x03\xed\xa0\x80"))), "UTF-8"),
        (entry_block((0, b"k" + T, value(b"\x0a\x04\xf4\x90\x80\x80"))), "UTF-8"),
        (entry_block((0, b"k" + T, value(b"\x0a\x02\xe6\xbc\x22\x01\xa2"))), "UTF-8"),
        (entry_block((0, b"k" + T, value(b"\x22\x01\xff"))), "UTF-8"),
    ],
)  # fmt: skip
def test_a_block_with_a_right_checksum_and_wrong_content_is_refused_at_its_place(
    body: bytes, problem: str
) -> None:
    count = 2 if problem == "come after" else 1
    for data in (one_block(body, count=count), one_block(body, stored=body, block_type=0, count=count)):
        with pytest.raises(FormatError, match=rf"^x: .*{problem}"):
            read_addresses(data, "x", COLUMNS)
    assert accepted_by_strict(one_block(body, count=count)) is None


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        put_uvarint(1 << 40) + b"\x00",
        put_uvarint(len(SOUND) + 1) + snappy(SOUND)[1:],
        put_uvarint(len(SOUND) - 1) + snappy(SOUND)[1:],
        put_uvarint(len(SOUND)),
        snappy(SOUND)[:-1],
        snappy(SOUND) + b"\x00a",
        put_uvarint(20) + b"\x00a" + b"\x01\x00" * 9,  # copies from offset 0
        put_uvarint(20) + b"\x00a" + b"\x01\x09" * 9,  # copies from before the start
        put_uvarint(20) + b"\x00a" + bytes([18 << 2 | 2, 5, 0]),  # from before the start, all lengths right
        put_uvarint(20) + b"\x00a" + bytes([18 << 2 | 3, 2, 0, 0, 0]),
        put_uvarint(20) + b"\xfc\xff\xff\xff\xff" + b"a" * 20,
        pytest.param(
            put_uvarint(20) + b"\xf8" + ((1 << 24) - 1).to_bytes(3, "little") + bytes(1 << 24), id="16M"
        ),
        pytest.param(put_uvarint(20) + b"\x00a" + b"\xfe\x01\x00" * (1 << 18), id="copies"),
        put_uvarint(20) + b"\xf4\xff\xff",
        put_uvarint(20) + b"\x00a\xff\x01",
        put_uvarint(20) + b"\x00a\xfe\x01",
    ],
)
def test_snappy_that_lies_is_refused(stored: bytes) -> None:
    with pytest.raises(FormatError, match=r"^x: data block 0 at 0 .*Snappy"):
        read_addresses(one_block(b"", stored=stored), "x")


def test_a_compression_that_lakefs_does_not_write_is_refused() -> None:
    with pytest.raises(FormatError, match="compression type"):
        read_addresses(one_block(b"", stored=SOUND, block_type=7), "x")


@given(
    st.binary(max_size=2000)
    | st.lists(st.sampled_from([b"a", b"abcdefg", b"xy" * 30]), max_size=80).map(b"".join)
)
def test_snappy_of_anything_is_uncompressed_as_it_was(tail: bytes) -> None:
    body = entry_block((0, b"a" + T, V + tail), (0, b"k" + T, V + tail))
    writer = RawWriter("ranges")
    writer.add_stored(snappy(body), 1, b"k")
    data = writer.finish_as(2, b"k", 18, 2 * len(V + tail))
    assert read_addresses(data, "x", ("key",))["key"].to_pylist() == [b"a", b"k"]


@pytest.mark.parametrize("pattern", range(1, 20))
def test_snappy_copies_of_every_distance(pattern: int) -> None:
    unit = bytes(range(65, 65 + pattern))
    for length in (4, 5, 11, 12, 13, 33, 64):
        tail = (unit * 80)[: pattern + length]
        body = entry_block((0, b"k" + T, V + tail))
        at = body.index(unit)
        stored = put_uvarint(len(body)) + bytes([(at - 1) << 2]) + body[:at]
        stored += bytes([(pattern - 1) << 2]) + unit + bytes([(length - 1) << 2 | 2, pattern, 0])
        rest = body[at + pattern + length :]
        stored += bytes([(len(rest) - 1) << 2]) + rest
        writer = RawWriter("ranges")
        writer.add_stored(stored, 1, b"k")
        data = writer.finish_as(1, b"k", 9, len(V + tail))
        assert read_addresses(data, "x", ("key",))["key"].to_pylist() == [b"k"]


def accepted_by_strict(data: bytes) -> list[tuple[bytes, str, int, int, str]] | None:
    try:
        batch = read_strictly(data, "x", ("key", "address", "address_type", "size", "etag"))
    except FormatError:
        return None
    return list(zip(*batch.to_pydict().values(), strict=True))


def accepted_by_columns(data: bytes) -> list[tuple[bytes, str, int, int, str]] | None:
    try:
        batch = read_addresses(data, "x", ("key", "address", "address_type", "size", "etag"))
    except FormatError:
        return None
    return list(zip(*batch.to_pydict().values(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bodies_with_right_checksums_never_give_fewer_or_other_rows(seed: int) -> None:
    chance = random.Random(seed)
    source = fixture(
        ["range_odd_keys", "range_of_many_1", "range_incompressible", "range_address_type_0"][seed]
    ).data
    truth = read_table(source, "x")
    bodies = blocks_of(source)[:3]
    whole = len(blocks_of(source)) == len(bodies)
    keys = [b"%d" % number for number in range(len(bodies))]
    records = truth.records
    for _ in range(300):
        damaged = [bytearray(body) for body in bodies]
        for _ in range(chance.choice([1, 1, 2, 5])):
            body = damaged[chance.randrange(len(damaged))]
            body[chance.randrange(len(body))] = chance.randrange(256)
        key_bytes = sum(len(key) + 8 for key, _ in records)
        value_bytes = sum(len(value) for _, value in records)
        data = table_of_blocks(damaged, keys, len(records), records[-1].key, key_bytes, value_bytes)
        fast = accepted_by_columns(data)
        strict = accepted_by_strict(data) if whole else None
        stated = Stated(len(records), records[-1].key, key_bytes, value_bytes)
        assert fast == plain_rows(damaged, stated)
        if fast is not None:
            assert len(fast) == len(records)
        if strict is not None:
            assert fast == strict


BASE = [(b"k%04d" % n, put_value(Entry(f"data/{n:04d}", size=n, etag=f"{n:x}").value())) for n in range(400)]
SMALL = BlockSizes(data=300)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 399), st.sampled_from(["change", "remove", "insert"])), max_size=6),
    st.lists(st.sampled_from(COLUMNS), unique=True),
)
def test_versions_of_a_range_decode_alike_alone_and_in_a_row(
    edits: list[tuple[int, str]], wanted: list[str]
) -> None:
    versions = [dict(BASE)]
    for place, kind in edits:
        version = dict(versions[-1])
        key = b"k%04d" % place
        if kind == "remove":
            version.pop(key, None)
        else:
            name = key + (b"x" if kind == "insert" else b"")
            version[name] = put_value(Entry(f"s3://elsewhere/{place}", 2, size=7, etag="new").value())
        versions.append(version)
    files = [(str(n), write_table(sorted(v.items()), sizes=SMALL).data) for n, v in enumerate(versions)]
    for (name, batch), (_, data) in zip(list(decode_ranges(files, wanted)), files, strict=True):
        batch.validate(full=True)
        assert batch.equals(read_addresses(data, name, wanted))


def test_blocks_that_equal_the_last_ranges_are_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    module = compiled.kernels()
    assert module is not None
    decode = module.decode
    monkeypatch.setattr(
        module,
        "decode",
        lambda *args: taken.append(int((args[1][:-1, k.SOURCE] >= 0).sum())) or decode(*args),
    )
    first = write_table(BASE, sizes=SMALL).data
    changed = list(BASE)
    changed[200] = (changed[200][0], put_value(Entry("data/0200", size=1, etag="c8").value()))
    list(decode_ranges([("a", first), ("b", first), ("c", write_table(changed, sizes=SMALL).data)], COLUMNS))
    blocks = len(blocks_of(first))
    assert blocks > 50
    assert taken[0] == 0
    assert taken[1] == blocks - 2
    assert blocks - 6 <= taken[2] < blocks - 2


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 11), min_size=1, max_size=20)
    | st.tuples(st.integers(0, 11), st.integers(0, 11)).map(lambda p: [n for n in range(12) if n not in p])
    | st.tuples(st.integers(0, 11), st.integers(0, 11)).map(lambda p: [*range(p[0]), p[1], *range(p[0], 12)])
)
def test_taking_equal_blocks_over_never_hides_keys_out_of_order(order: list[int]) -> None:
    records = BASE[:120]
    first = write_table(records, sizes=BlockSizes(data=500)).data
    bodies = blocks_of(first)
    parts = [read_table(table_of_blocks([b], [b"x"], *facts(b)), "part").records for b in bodies]
    order = [place % len(bodies) for place in order]
    rows = [record for place in order for record in parts[place]]
    keys = sum(len(key) + 8 for key, _ in rows)
    values = sum(len(value) for _, value in rows)
    index_keys = [b"\xff%04d" % n for n in range(len(order))]
    data = table_of_blocks([bodies[p] for p in order], index_keys, len(rows), rows[-1].key, keys, values)
    sound = order == sorted(set(order))
    seen: dict[bytes, Block] = {}
    read_table(first, "first", seen=seen)
    if sound:
        assert read_table(data, "second", seen=seen).records == rows
    else:
        with pytest.raises(FormatError, match=r"second: .*come after"):
            read_table(data, "second", seen=seen)
    for wanted in (("address",), COLUMNS):
        if sound:
            batches = list(decode_ranges([("first", first), ("second", data)], wanted))
            assert batches[1][1].equals(read_addresses(data, "alone", wanted))
            assert batches[1][1].num_rows == len(rows)
        else:
            with pytest.raises(FormatError, match=r"second: .*come after"):
                list(decode_ranges([("first", first), ("second", data)], wanted))


def forge(body: bytes, place: int, target: int) -> bytes:
    def crc_with(patch: int) -> int:
        return checksum(body[:place] + patch.to_bytes(4, "little") + body[place + 4 :], 0)

    def unmask(stored: int) -> int:
        rotated = (stored - 0xA282EAD8) & 0xFFFFFFFF
        return (rotated << 15 | rotated >> 17) & 0xFFFFFFFF

    start = unmask(crc_with(0))
    basis: list[tuple[int, int]] = []  # (effect on the CRC, bits that have it), highest effects apart
    for bit in range(32):
        effect, bits = unmask(crc_with(1 << bit)) ^ start, 1 << bit
        for known, made_of in basis:
            if effect ^ known < effect:
                effect, bits = effect ^ known, bits ^ made_of
        basis.append((effect, bits))
        basis.sort(reverse=True)
    wanted, patch = unmask(target) ^ start, 0
    for effect, bits in basis:
        if wanted ^ effect < wanted:
            wanted, patch = wanted ^ effect, patch ^ bits
    return body[:place] + patch.to_bytes(4, "little") + body[place + 4 :]


def test_a_block_with_length_and_checksum_of_another_is_not_taken_for_it() -> None:
    def block(number: int, size: int) -> bytes:
        entry = put_value(Entry(f"data/{number:04d}", size=size).value())
        return entry_block((0, b"k%04d" % number + T, entry + b"tail"))

    def table(bodies: list[bytes]) -> bytes:
        writer = RawWriter("ranges")
        for number, body in enumerate(bodies):
            writer.add_stored(body, 0, b"k%04d" % number)
        values = sum(len(body) - 3 - 13 - 8 for body in bodies)
        return writer.finish_as(len(bodies), b"k%04d" % (len(bodies) - 1), 13 * len(bodies), values)

    bodies = [block(number, 5) for number in range(20)]
    other = block(7, 9)
    forged = forge(other, other.index(b"tail"), checksum(bodies[7], 0))
    assert forged != bodies[7]
    assert (len(forged), checksum(forged, 0)) == (len(bodies[7]), checksum(bodies[7], 0))
    changed = [*bodies[:7], forged, *bodies[8:]]
    batches = list(decode_ranges([("a", table(bodies)), ("b", table(changed))], ("size",)))
    assert [batch["size"].to_pylist()[7] for _, batch in batches] == [5, 9]


def facts(body: bytes) -> tuple[int, bytes, int, int]:
    from dredge.lakefs.files.sstable.layout import block_entries

    entries = list(block_entries(body, "x", "x"))
    keys, values = sum(len(key) for key, _ in entries), sum(len(value) for _, value in entries)
    return len(entries), entries[-1][0][:-8], keys, values


@pytest.mark.parametrize("before", [False, True], ids=["alone", "after an equal range"])
@pytest.mark.parametrize(
    "wrong",
    [(1,), (-1,), (-300,), (0, 1), (0, 0, 1), (0, 0, -1), (0, 0, -999), (0, 0, 0, 1)],
)
def test_numbers_that_differ_from_the_stated_ones_are_refused(wrong: tuple[int, ...], before: bool) -> None:
    bodies = blocks_of(write_table(BASE, sizes=SMALL).data)
    counts, last_keys, keys, values = zip(*map(facts, bodies), strict=True)

    def table(rows: int = 0, last: int = 0, key_bytes: int = 0, value_bytes: int = 0) -> bytes:
        stated = sum(counts) + rows, last_keys[-1] + b"x" * last, sum(keys) + key_bytes + 8 * rows
        return table_of_blocks(bodies, last_keys, *stated, sum(values) + value_bytes)

    files = [*[("a", table())] * before, ("x", table(*wrong))]
    # More than there is room for must not be written.
    for wanted, problem in (("address",), ""), (COLUMNS, "more records" if min(wrong) < 0 else ""):
        with pytest.raises(FormatError, match=rf"^x: .*{problem}"):
            list(decode_ranges(files, wanted))


@pytest.mark.parametrize("named", [(1, 2), (0, 2), (0, 1), (3,), (4, 1, 2)], ids=str)
def test_data_blocks_that_do_not_fill_the_file_are_refused(named: tuple[int, ...]) -> None:
    writer = RawWriter("ranges")
    handles = [writer._write_block(entry_block((0, b"%d" % number + T, V))) for number in range(3)]
    handles += [Handle(0, 1 << 40), Handle(1 << 40, handles[0].length)]
    for place, number in enumerate(named):
        writer._add_handle(b"%d" % place, handles[number])
    with pytest.raises(FormatError, match=r"^x: data block \d at \d.* contiguous"):
        read_addresses(writer.finish_as(2, b"2", 18, 6), "x")


def test_properties_that_ask_for_more_memory_than_the_file_can_need_are_refused() -> None:
    body = blocks_of(write_table(BASE[:5]).data)[0]
    for count, keys in ((1 << 40, 1 << 60), (5, 1 << 60)):
        with pytest.raises(FormatError, match="properties"):
            read_addresses(table_of_blocks([body], [b"x"], count, b"x", keys, 1), "x", COLUMNS)
