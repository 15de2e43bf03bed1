"""The writer makes the files of a real server, and round trips of anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.lakefs.files.ident import TableHash
from dredge.lakefs.files.sstable import read_table
from dredge.lakefs.files.sstable.layout import Expected
from lakefs_embedded.committed.tables import BlockSizes, TableWriter, write_table
from tests.support.lakefs_tables import Fixture, fixtures

KEYS = st.one_of(
    st.binary(max_size=40),
    st.text(st.sampled_from("ab/\x00\x01\xff"), max_size=12).map(lambda text: text.encode("latin-1")),
)

VALUES = st.one_of(
    st.binary(max_size=60), st.integers(0, 9000).map(bytes), st.binary(min_size=3000, max_size=5000)
)

RECORDS = st.dictionaries(KEYS, VALUES, max_size=120).map(lambda records: sorted(records.items()))
SIZES = st.builds(
    BlockSizes,
    data=st.sampled_from([1, 64, 500, 4096, 1 << 20]),
    index=st.sampled_from([1, 40, 300, 4096]),
    restart_interval=st.sampled_from([1, 2, 16, 1000]),
)


@pytest.mark.parametrize("item", fixtures(dumps=False), ids=lambda item: item.name)
def test_a_servers_file_is_written_again_byte_for_byte(item: Fixture) -> None:
    table = read_table(item.data, item.name)
    written = write_table(table.records, table.envelope.kind)
    assert written.id == item.id
    assert written.data == item.data
    assert written.count == len(table.records)
    assert b"%d" % written.estimated_size == table.envelope.properties["estimated_size_bytes"]


def test_the_published_table_ids_hold() -> None:
    one = "1f60902cb44890618d61597673a62e44cf526f5991d9db687141218985fe60b8"
    table_hash = TableHash()
    table_hash.add(b"key", b"value")
    assert table_hash.finish({}) == one
    empty_metarange = "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"
    assert write_table([], "metaranges").id == empty_metarange
    empty_range = "5105eaf20d56aa444d5402b4eab9d952aecff97791980db9141ca8e2590ce149"
    assert write_table([], "ranges").id == empty_range


@settings(max_examples=60, deadline=None)
@given(RECORDS, SIZES, st.sampled_from(["ranges", "metaranges"]))
def test_any_records_survive_any_layout(
    records: list[tuple[bytes, bytes]], sizes: BlockSizes, kind: str
) -> None:
    written = write_table(records, kind, sizes)
    table = read_table(written.data, "round trip", expected_id=written.id, expected=Expected(len(records)))
    assert table.records == records
    assert written.id == write_table(records, kind).id
    assert (written.min_key, written.max_key) == ((records[0][0], records[-1][0]) if records else (b"", b""))


@pytest.mark.parametrize("key", [b"a", b"b"])
def test_keys_out_of_order_are_refused(key: bytes) -> None:
    writer = TableWriter()
    writer.add(b"b", b"")
    with pytest.raises(ValueError, match="does not come after"):
        writer.add(key, b"")
