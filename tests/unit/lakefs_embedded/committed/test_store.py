"""Ranges are cut where a server cuts them, and read back whole or not at all."""

from collections.abc import Iterator

import pytest

from dredge.errors import FormatError, NotFoundError
from dredge.lakefs.files.ranges import RangeInfo, Value, read_metarange
from dredge.storage import open_reader, open_writer
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.store import RangeReader, RangeStore
from lakefs_embedded.committed.writing import MetaRangeWriter, SplitRule
from tests.support.lakefs_tables import LAKEFS, fixture, fixtures, key_bytes
from tests.support.memory_store import MemoryStore, forget_memory_store, memory_store


@pytest.fixture
def files() -> Iterator[MemoryStore]:
    yield memory_store("ranges")
    forget_memory_store("ranges")


@pytest.fixture
def store(files: MemoryStore) -> RangeStore:
    return RangeStore(open_writer("memory://ranges/repo"))


def entry(text: str) -> Value:
    return Entry(f"data/{text}", size=len(text), etag=text).value()


def test_ranges_are_cut_where_a_server_with_the_same_setting_cut_them(store: RangeStore) -> None:
    truth = read_metarange(fixture("metarange_many_ranges").data, "many", fixture("metarange_many_ranges").id)
    rule = SplitRule(raggedness=7)
    writer = MetaRangeWriter(store, rule)
    last = key_bytes(fixture("range_of_many_2").records[-1]["key"])
    for number in range(3):
        for key, raw in (r for r in _records(f"range_of_many_{number}")):
            writer.add_encoded(key, raw)
    written = writer.finish()
    assert written.ranges == tuple(truth[:3])
    assert written.ranges[-1].max_key == last


def _records(name: str) -> list[tuple[bytes, bytes]]:
    from dredge.lakefs.files.sstable import read_table

    return list(read_table(fixture(name).data, name).records)


def test_a_servers_repository_is_read_path_by_path() -> None:
    reader = RangeReader(open_reader(str(LAKEFS / "repo-small/namespace")))
    ranges = {item.id: item.records for item in fixtures("ranges") if item.path.parent.name == "_lakefs"}
    for item in fixtures("metaranges", dumps=False):
        if item.path.parent.name != "_lakefs":
            continue
        truth = [row for info in item.records for row in ranges[info["range_id"]]]
        listed = list(reader.list_entries(item.id))
        assert [key for key, _ in listed] == [row["key"].encode() for row in truth]
        for (key, value), row in zip(listed, truth, strict=True):
            assert Entry.decode(value.data, "x").address == row["address"]
            assert reader.get_entry(item.id, key) == value
        assert reader.get_entry(item.id, b"~ nothing here") is None
        assert reader.get_entry(item.id, b"") is None


def test_the_content_of_a_first_commit_is_empty_and_asks_for_no_file(store: RangeStore) -> None:
    assert list(store.list_entries("")) == []
    assert store.get_entry("", b"x") is None
    assert store.get_metarange("").ranges == ()


def test_a_missing_file_is_an_error_never_an_empty_answer(store: RangeStore, files: MemoryStore) -> None:
    writer = MetaRangeWriter(store)
    writer.add(b"a", entry("a"))
    metarange = writer.finish()
    files.objects.pop(f"repo/_lakefs/{metarange.ranges[0].id}")
    fresh = RangeStore(open_writer("memory://ranges/repo"))
    with pytest.raises(NotFoundError):
        list(fresh.list_entries(metarange.id))
    with pytest.raises(NotFoundError):
        fresh.get_entry("ab" * 32, b"a")
    with pytest.raises(FormatError, match="passwd"):
        fresh.get_metarange("../../etc/passwd")


def test_a_file_under_anothers_id_is_refused(store: RangeStore, files: MemoryStore) -> None:
    ids = []
    for text in ("one", "two"):
        writer = MetaRangeWriter(store)
        writer.add(b"key", entry(text))
        ids.append(writer.finish())
    one, two = (f"repo/_lakefs/{item.ranges[0].id}" for item in ids)
    files.objects[one] = files.objects[two]
    with pytest.raises(FormatError, match=f"not {ids[0].ranges[0].id}"):
        list(RangeStore(open_writer("memory://ranges/repo")).list_entries(ids[0].id))


def test_a_range_that_differs_from_its_metaranges_word_is_refused(store: RangeStore) -> None:
    writer = MetaRangeWriter(store)
    writer.add(b"a", entry("a"))
    true = writer.finish().ranges[0]
    for wrong in (
        RangeInfo(true.id, true.min_key, true.max_key, 1, 2),
        RangeInfo(true.id, true.min_key, b"b", 1, 1),
    ):
        with pytest.raises(FormatError, match=true.id):
            store.get_range(wrong)
