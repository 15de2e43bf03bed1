"""What every object store driver promises of reading, on every driver."""

import pickle
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, NotFoundError
from dredge.storage import StorageOptions, open_writer, store_clock
from dredge.storage.listing_schema import LISTING_SCHEMA, LISTING_SCHEMA_WITH_CLASS
from tests.support.object_stores import Stores

ODD_NAMES = [
    "plain",
    "with space",
    "pct%20x",
    "pct%2Fx",
    "a+b",
    "quote'\"&<>",
    "back\\slash",
    "hash#x",
    "query?x=1",
    "comma,sig=abc!",
    "café",  # composed
    "cafe\u0301",  # decomposed: another key
    "emoji😀",
    "tilde~",
    "star*|{}^`[]",
    "nbsp\u00a0",
    "..hidden",
    "dots..",
    "...",
    "%zz",
    "colon:x",
    "&amp;",
    "&quot;",
]

REFUSED_BY_AZURE = ["back\\slash", "dots..", "..."]
"""Names that some way to the service rewrites."""


def test_reader_and_writer_cannot_delete_and_reader_cannot_write(stores: Stores) -> None:
    for name in ("delete", "delete_many", "remove", "_delete", "unlink"):
        assert not hasattr(stores.reader, name)
        assert not hasattr(stores.writer, name)
    for name in ("put", "put_if_absent", "put_if_match", "put_stream", "copy"):
        assert not hasattr(stores.reader, name)
        assert not hasattr(stores.deleter, name)
    assert not hasattr(stores.deleter, "get")
    assert stores.reader.uri == stores.writer.uri == stores.deleter.uri == stores.uri


def test_what_is_put_is_read_listed_and_looked_up(stores: Stores) -> None:
    before = datetime.now(UTC)
    etag = stores.writer.put("data/a/x", b"hello")
    info = stores.reader.stat("data/a/x")
    assert stores.reader.get("data/a/x") == b"hello"
    assert (info.key, info.size, info.etag) == ("data/a/x", 5, etag)
    assert info.etag is None or '"' not in info.etag
    assert info.last_modified.tzinfo is UTC
    assert abs(info.last_modified - before) < timedelta(seconds=30)
    [batch] = list(stores.reader.list())
    tells_classes = stores.kind not in ("local", "memory")
    assert batch.schema.equals(LISTING_SCHEMA_WITH_CLASS if tells_classes else LISTING_SCHEMA)
    row = batch.to_pylist()[0]
    assert (row["key"], row["size"], row["etag"], row["last_modified"]) == (
        info.key,
        info.size,
        info.etag,
        info.last_modified,
    )


def test_etags_of_s3_gcs_and_memory_are_the_contents(stores: Stores) -> None:
    one, two = stores.writer.put("one", b"same"), stores.writer.put("two", b"same")
    if stores.kind in ("s3", "memory", "gcs", "gcs_emulator"):
        assert one == two
        assert stores.writer.put("three", b"else") != one


def test_absent_objects_are_not_found(stores: Stores) -> None:
    stores.writer.put("data/x", b"1")
    for key in ("nothing", "data", "data/x/y", "data/", "", "x"):
        with pytest.raises(NotFoundError):
            stores.reader.get(key)
        with pytest.raises(NotFoundError):
            stores.reader.stat(key)
        with pytest.raises(NotFoundError), stores.reader.open_read(key) as stream:
            list(stream)
    assert stores.keys("no/such/folder") == []
    assert stores.reader.list_level("no/such/").objects == []


def test_odd_names_are_kept_to_the_letter(stores: Stores) -> None:
    stores.writer.put("data/other", b"keep")
    for name in ODD_NAMES:
        key = f"data/{name}"
        if stores.kind == "azure" and name in REFUSED_BY_AZURE:
            with pytest.raises(ConfigError):
                stores.writer.put(key, name.encode())
            assert [o.outcome for o in stores.deleter.delete([key])] == ["not_addressable"]
            assert stores.keys() == ["data/other"]
            continue
        stores.writer.put(key, name.encode())
        assert key in stores.keys("data/")
        assert stores.reader.get(key) == name.encode()
        assert stores.reader.stat(key).key == key
        assert [o.key for o in stores.reader.list_level("data/").objects] == sorted([key, "data/other"])
        assert [o.outcome for o in stores.deleter.delete([key])] == ["deleted"]
        assert stores.keys("data/") == ["data/other"]


def test_the_empty_object_is_an_object(stores: Stores) -> None:
    stores.writer.put("data/empty", b"")
    assert stores.reader.get("data/empty") == b""
    assert stores.reader.stat("data/empty").size == 0
    with stores.reader.open_read("data/empty") as stream:
        assert list(stream) == []
    assert stores.keys() == ["data/empty"]
    assert stores.writer.put_stream("data/empty2", iter(())).size == 0


def test_listing_goes_through_keys_in_byte_order_not_folder_order(stores: Stores) -> None:
    keys = ["a/z", "a-b", "a.c", "a0", "ab/c", "b", "a/b/c", "é", "z", "\U0001f600", "\ufb01", "a/b-c"]
    for key in keys:
        stores.writer.put(f"data/{key}", b"")
    found = stores.keys("data/")
    assert sorted(found) == sorted(f"data/{key}" for key in keys)
    assert found == sorted((f"data/{key}" for key in keys), key=str.encode)


def test_prefix_is_text_and_not_a_folder(stores: Stores) -> None:
    for key in ("data/a", "data/ab/c", "data/b", "database/x", "dat"):
        stores.writer.put(key, b"")
    assert stores.keys("data/a") == ["data/a", "data/ab/c"]
    assert stores.keys("data") == ["data/a", "data/ab/c", "data/b", "database/x"]
    assert stores.keys("data/") == ["data/a", "data/ab/c", "data/b"]
    assert stores.keys("data//") == stores.keys("/") == stores.keys("../") == []


def test_listing_never_shows_a_neighbour_of_the_root(stores: Stores) -> None:
    stores.writer.put("x", b"")
    if stores.kind in ("s3", "azure", "gcs", "gcs_emulator"):
        open_writer(stores.uri + "2", stores.writer._options).put("y", b"")  # type: ignore[attr-defined]
    else:
        open_writer(stores.uri + "2", StorageOptions()).put("y", b"")
    assert stores.keys() == ["x"]


def test_bounds_are_exclusive_and_cut_anywhere(stores: Stores) -> None:
    keys = [f"data/{folder}/{i}" for folder in ("a", "b", "c") for i in range(4)]
    for key in keys:
        stores.writer.put(key, b"")
    for low in (
        "",
        "data/",
        "data/a",
        "data/a/",
        "data/a/1",
        "data/b/",
        "data/b/3",
        "data/bb",
        "data/z",
        "z",
    ):
        for high in ("", "data/a/1", "data/b", "data/b/", "data/b/2", "data/c/9", "data/z", "a"):
            expected = [k for k in keys if (not low or k > low) and (not high or k < high)]
            assert sorted(stores.keys("data/", start_after=low, stop_before=high)) == expected, (low, high)


def test_key_ranges_split_a_listing_without_loss_or_repetition(stores: Stores) -> None:
    keys = [f"data/s/{i:03d}" for i in range(50)]
    for key in keys:
        stores.writer.put(key, b"")
    cuts = ["", "data/s/010", "data/s/0105", "data/s/030", ""]
    # A cut belongs to the part below it; both bounds being exclusive, that part ends at the cut and a NUL.
    parts = [
        stores.keys("data/s/", start_after=low, stop_before=f"{high}\0" if high else "")
        for low, high in pairwise(cuts)
    ]
    assert [key for part in parts for key in part] == keys


def test_a_level_shows_folders_and_objects_apart(stores: Stores) -> None:
    for key in ("data/s2/a", "data/s1/a", "data/s1/b", "data/file", "top"):
        stores.writer.put(key, b"12")
    top, level = stores.reader.list_level(), stores.reader.list_level("data/")
    assert (top.folders, [o.key for o in top.objects]) == (["data/"], ["top"])
    assert (level.folders, [o.key for o in level.objects]) == (["data/s1/", "data/s2/"], ["data/file"])
    assert level.objects[0].size == 2
    assert level.objects[0].last_modified.tzinfo is UTC
    assert stores.reader.list_level("data/s").folders == ["data/s1/", "data/s2/"]


def test_get_many_keeps_order_and_raises_on_any_missing_key(stores: Stores) -> None:
    keys = [f"r/{i}" for i in range(40)]
    for key in keys:
        stores.writer.put(key, key.encode())
    asked = keys[::-1] + keys[:3]
    assert list(stores.reader.get_many(asked)) == [(k, k.encode()) for k in asked]
    assert list(stores.reader.get_many([])) == []
    read = stores.reader.get_many([*keys[:10], "missing", *keys[10:]])
    with pytest.raises(NotFoundError):
        list(read)


def test_ranges_end_where_the_object_does(stores: Stores) -> None:
    stores.writer.put("k", b"0123456789")
    assert stores.reader.get_range("k", 2, 3) == b"234"
    assert stores.reader.get_range("k", 8, 100) == b"89"
    assert stores.reader.get_range("k", 10, 5) == stores.reader.get_range("k", 50, 5) == b""
    assert stores.reader.get_range("k", 3, 0) == b""
    with stores.reader.open_read("k", 4) as stream:
        assert b"".join(stream) == b"456789"
        assert stream.info.size == 10
    with pytest.raises(NotFoundError):
        stores.reader.get_range("missing", 0, 1)


def test_stores_travel_to_other_processes(stores: Stores) -> None:
    stores.writer.put("k", b"v")
    reader, writer, deleter = pickle.loads(pickle.dumps((stores.reader, stores.writer, stores.deleter)))
    assert reader.get("k") == b"v"
    writer.put("k2", b"v2")
    assert [o.outcome for o in deleter.delete(["k"])] == ["deleted"]
    assert stores.keys() == ["k2"]


def test_store_clock_is_the_stores_own_and_leaves_one_probe(stores: Stores) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    first = store_clock(stores.writer, "_lakefs/gc")
    second = store_clock(stores.writer, "_lakefs/gc/")
    tick = timedelta(milliseconds=10)
    assert before <= first <= second + tick <= datetime.now(UTC) + timedelta(seconds=2)
    assert len(stores.keys()) == 1
    assert stores.keys("data/") == []


def test_listing_batches_are_never_empty(stores: Stores) -> None:
    stores.writer.put("data/a", b"")
    batches = list(stores.reader.list("data/"))
    assert all(isinstance(batch, pa.RecordBatch) and batch.num_rows for batch in batches)
    assert list(stores.reader.list("data/", start_after="data/a")) == []
