"""Entries, values and ids are those of a real server."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import FormatError
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.ranges import RangeInfo, Value
from dredge.lakefs.files.sstable import read_table
from lakefs_embedded.committed.entries import Entry, commit_id
from lakefs_embedded.committed.tables import put_range, put_value
from tests.support.lakefs_tables import LAKEFS, Fixture, fixtures, key_bytes

IDS = json.loads((LAKEFS / "ids.json").read_text())
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("item", fixtures("ranges", dumps=False), ids=lambda item: item.name)
def test_entries_of_a_server_are_read_and_written_as_they_stand(item: Fixture) -> None:
    records = read_table(item.data, item.name).records
    assert len(records) == len(item.records)
    for (key, raw), row in zip(records, item.records, strict=True):
        value = Value.decode(raw, item.name)
        assert key == key_bytes(row["key"])
        assert value.identity.hex() == row["identity"]
        entry = Entry.decode(value.data, item.name)
        assert entry.address == row["address"]
        assert entry.address_type == row["address_type"]
        assert entry.size == row["size"]
        assert entry.etag == row["etag"]
        assert entry.metadata == row["metadata"]
        assert entry.content_type == row["content_type"]
        stamp = messages.to_timestamp(entry.last_modified)
        assert [stamp.seconds, stamp.nanos + entry.nanoseconds] == row["last_modified"]
        assert entry.identity() == value.identity
        assert put_value(value) == raw
        if len(entry.metadata) < 2:  # a server writes maps in any order
            assert entry.value() == value


@pytest.mark.parametrize("item", fixtures("metaranges", dumps=False), ids=lambda item: item.name)
def test_ranges_named_by_a_servers_metarange_are_read_and_written_as_they_stand(item: Fixture) -> None:
    records = read_table(item.data, item.name).records
    assert len(records) == len(item.records)
    for (key, raw), row in zip(records, item.records, strict=True):
        info = RangeInfo.decode(key, raw, item.name)
        assert info == RangeInfo(
            row["range_id"],
            key_bytes(row["min_key"]),
            key_bytes(row["max_key"]),
            row["estimated_size"],
            row["count"],
        )
        assert put_range(info) == raw


@pytest.mark.parametrize("vector", IDS["entry_identities"], ids=lambda vector: vector["identity"][:8])
def test_entry_identities_of_a_server_hold(vector: dict[str, str]) -> None:
    found = identity(vector["size"], vector["etag"], vector["metadata"], vector["content_type"])
    assert found == vector["identity"]


def identity(size: object, etag: str, metadata: object, content_type: str) -> str:
    return Entry("x", size=size, etag=etag, metadata=metadata, content_type=content_type).identity().hex()  # type: ignore[arg-type]


def test_address_and_time_are_no_part_of_the_identity() -> None:
    one = Entry("data/one", size=3, etag="e", last_modified=EPOCH)
    other = Entry("s3://b/two", AddressType.FULL, size=3, etag="e", last_modified=EPOCH + timedelta(days=1))
    assert one.identity() == other.identity()


@pytest.mark.parametrize("commit", IDS["commits"], ids=lambda commit: commit["id"][:8])
def test_commit_ids_of_a_server_hold(commit: dict[str, object]) -> None:
    created = EPOCH + timedelta(seconds=commit["creation_date"])  # type: ignore[arg-type]
    found = commit_id(
        commit["committer"],  # type: ignore[arg-type]
        commit["message"],  # type: ignore[arg-type]
        commit["meta_range_id"],  # type: ignore[arg-type]
        created,
        commit["metadata"],  # type: ignore[arg-type]
        commit["parents"],  # type: ignore[arg-type]
    )
    assert found == commit["id"]


def test_the_published_commit_ids_hold() -> None:
    first = datetime.fromtimestamp(1606834800, UTC)
    one = commit_id("user1", "message1", "deadbeef123", first, {"foo": "bar"}, [])
    assert one == "fac53a04432b2e6e7185f3ac8314a874c556b2557adf3aa8d5b1df985cf96566"
    year_1 = datetime(1, 1, 1, tzinfo=UTC)
    two = commit_id("user1", "message1", "deadbeef123", year_1, {"foo": "bar"}, ["deadbeef1", "deadbeef12"])
    assert two == "2277b5abd2d3ba6b4d35c48a0e358b0c4bcf5cd6d891c67437fb4c4af0d2fd4b"
    initial = commit_id("", "Repository created", "", EPOCH, {}, [])
    assert initial == "b8dc41c283f83ac786b14c93871c017df5d3662d615213fab433f3226a10714c"
    parents: list[str] = []
    for number in range(20):
        created = first + timedelta(seconds=number)
        parents = [commit_id("user1", "message1", "deadbeef123", created, {"foo": "bar"}, parents)]
    assert parents == ["663b7520a2a05aaeed17de6136fa80eb5cd8417982011eb551230571ee412f2f"]


@pytest.mark.parametrize("raw", ["", "40", "02", "0201", "020102", "0201ff", "01", "ffffffffffffffffffff01"])
def test_a_cut_value_is_refused(raw: str) -> None:
    with pytest.raises(FormatError, match="somewhere: value"):
        Value.decode(bytes.fromhex(raw), "somewhere")


def test_an_unknown_address_type_is_refused() -> None:
    with pytest.raises(FormatError, match="address type 3 is unknown"):
        Entry.decode(bytes.fromhex("3003"), "x")


def test_parts_too_large_for_a_server_are_refused() -> None:
    with pytest.raises(ValueError, match="41943040"):
        put_value(Value(b"", bytes((640 << 16) + 1)))


@pytest.mark.parametrize(
    "info",
    [
        RangeInfo("ab" * 31 + "zz", b"a", b"key", 1, 1),
        RangeInfo("ab", b"a", b"key", 1, 1),
        RangeInfo("ab" * 32, b"a", b"other", 1, 1),
        RangeInfo("ab" * 32, b"a", b"key", 1, 0),
    ],
)
def test_a_range_that_contradicts_itself_is_refused(info: RangeInfo) -> None:
    with pytest.raises(FormatError, match=r"^meta: "):
        RangeInfo.decode(b"key", put_range(info), "meta")
