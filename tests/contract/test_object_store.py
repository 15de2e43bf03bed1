"""What every object store driver promises, on every driver."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, ConflictError, NotFoundError
from dredge.storage import (
    LISTING_SCHEMA,
    ObjectDeleter,
    ObjectReader,
    ObjectWriter,
    StorageOptions,
    forget_memory_store,
    open_deleter,
    open_reader,
    open_writer,
    remote,
    store_clock,
)
from dredge.storage.location import Location
from dredge.storage.remote import RemoteDeleter, RemoteReader, RemoteWriter
from tests.support.objectstore import make_bucket

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


@dataclass
class Doors:
    kind: str
    uri: str
    reader: ObjectReader
    writer: ObjectWriter
    deleter: ObjectDeleter

    def keys(self, prefix: str = "", **bounds: str) -> list[str]:
        return [key for batch in self.reader.list(prefix, **bounds) for key in batch.column(0).to_pylist()]


@pytest.fixture(params=["local", "memory", "s3", "remote"])
def doors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Doors]:
    options = StorageOptions()
    if request.param == "remote":  # its code on the client's memory store; GCS and Azure are not at hand
        at = Location("remote", "memory:///", "lake/repo", "memory:///lake/repo")
        yield Doors("remote", at.uri, RemoteReader(at), RemoteWriter(at), RemoteDeleter(at))
        remote._stores.clear()
        return
    if request.param == "local":
        uri = f"file://{tmp_path}/lake/repo"
    elif request.param == "memory":
        uri = f"memory://{uuid.uuid4().hex}/lake/repo"
    else:
        options = request.getfixturevalue("moto_options")
        uri = f"{make_bucket(options).uri}/lake/repo"
    yield Doors(
        request.param, uri, open_reader(uri, options), open_writer(uri, options), open_deleter(uri, options)
    )
    if request.param == "memory":
        forget_memory_store(uri.split("/")[2])


def test_reader_and_writer_cannot_delete_and_reader_cannot_write(doors: Doors) -> None:
    for name in ("delete", "delete_many", "remove", "_delete", "unlink"):
        assert not hasattr(doors.reader, name)
        assert not hasattr(doors.writer, name)
    for name in ("put", "put_if_absent", "put_if_match", "put_stream", "put_file", "copy"):
        assert not hasattr(doors.reader, name)
        assert not hasattr(doors.deleter, name)
    assert not hasattr(doors.deleter, "get")
    assert doors.reader.uri == doors.writer.uri == doors.deleter.uri == doors.uri


def test_what_is_put_is_read_listed_and_looked_up(doors: Doors) -> None:
    before = datetime.now(UTC)
    etag = doors.writer.put("data/a/x", b"hello")
    info = doors.reader.stat("data/a/x")
    assert doors.reader.get("data/a/x") == b"hello"
    assert (info.key, info.size, info.etag) == ("data/a/x", 5, etag)
    assert info.etag is None or '"' not in info.etag
    assert info.last_modified.tzinfo is UTC
    assert abs(info.last_modified - before) < timedelta(seconds=30)
    [batch] = list(doors.reader.list())
    assert batch.schema.equals(LISTING_SCHEMA)
    row = batch.to_pylist()[0]
    assert (row["key"], row["size"], row["etag"], row["last_modified"]) == (
        info.key,
        info.size,
        info.etag,
        info.last_modified,
    )


def test_content_etag_is_the_content_or_does_not_claim_to_be(doors: Doors) -> None:
    one, two = doors.writer.put("one", b"same"), doors.writer.put("two", b"same")
    if doors.reader.content_etag:
        assert one == two
        assert doors.writer.put("three", b"else") != one


def test_absent_objects_are_not_found(doors: Doors) -> None:
    doors.writer.put("data/x", b"1")
    for key in ("nothing", "data", "data/x/y", "data/", "", "x"):
        with pytest.raises(NotFoundError):
            doors.reader.get(key)
        with pytest.raises(NotFoundError):
            doors.reader.stat(key)
        with pytest.raises(NotFoundError), doors.reader.open_read(key) as stream:
            list(stream)
    assert doors.keys("no/such/folder") == []
    assert doors.reader.list_level("no/such/").objects == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_kept_to_the_letter(doors: Doors, name: str) -> None:
    key = f"data/{name}"
    doors.writer.put(key, name.encode())
    doors.writer.put("data/other", b"keep")
    assert key in doors.keys("data/")
    assert doors.reader.get(key) == name.encode()
    assert doors.reader.stat(key).key == key
    assert [o.key for o in doors.reader.list_level("data/").objects] == sorted([key, "data/other"])
    assert [o.outcome for o in doors.deleter.delete([key])] == ["deleted"]
    assert doors.keys("data/") == ["data/other"]


def test_the_empty_object_is_an_object(doors: Doors) -> None:
    doors.writer.put("data/empty", b"")
    assert doors.reader.get("data/empty") == b""
    assert doors.reader.stat("data/empty").size == 0
    with doors.reader.open_read("data/empty") as stream:
        assert list(stream) == []
    assert doors.keys() == ["data/empty"]
    assert doors.writer.put_stream("data/empty2", iter(())).size == 0


def test_listing_goes_through_keys_in_byte_order_not_folder_order(doors: Doors) -> None:
    keys = ["a/z", "a-b", "a.c", "a0", "ab/c", "b", "a/b/c", "é", "z", "\U0001f600", "\ufb01", "a/b-c"]
    for key in keys:
        doors.writer.put(f"data/{key}", b"")
    found = doors.keys("data/")
    assert sorted(found) == sorted(f"data/{key}" for key in keys)
    if doors.kind != "remote":
        assert found == sorted((f"data/{key}" for key in keys), key=str.encode)


def test_prefix_is_text_and_not_a_folder(doors: Doors) -> None:
    for key in ("data/a", "data/ab/c", "data/b", "database/x", "dat"):
        doors.writer.put(key, b"")
    assert doors.keys("data/a") == ["data/a", "data/ab/c"]
    assert doors.keys("data") == ["data/a", "data/ab/c", "data/b", "database/x"]
    assert doors.keys("data/") == ["data/a", "data/ab/c", "data/b"]
    assert doors.keys("data//") == doors.keys("/") == doors.keys("../") == []


def test_listing_never_shows_a_neighbour_of_the_root(doors: Doors) -> None:
    doors.writer.put("x", b"")
    if doors.kind == "remote":
        neighbour = RemoteWriter(Location("remote", doors.writer._location.bucket, "lake/repo2", ""))  # type: ignore[attr-defined]
        neighbour.put("y", b"")
    elif doors.kind == "s3":
        open_writer(doors.uri + "2", doors.writer._options).put("y", b"")  # type: ignore[attr-defined]
    else:
        open_writer(doors.uri + "2", StorageOptions()).put("y", b"")
    assert doors.keys() == ["x"]


def test_bounds_are_exclusive_and_cut_anywhere(doors: Doors) -> None:
    keys = [f"data/{folder}/{i}" for folder in ("a", "b", "c") for i in range(4)]
    for key in keys:
        doors.writer.put(key, b"")
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
            assert sorted(doors.keys("data/", start_after=low, stop_before=high)) == expected, (low, high)


def test_key_ranges_split_a_listing_without_loss_or_repetition(doors: Doors) -> None:
    keys = [f"data/s/{i:03d}" for i in range(50)]
    for key in keys:
        doors.writer.put(key, b"")
    cuts = ["", "data/s/010", "data/s/0105", "data/s/030", ""]
    # A cut belongs to the part below it; both bounds being exclusive, that part ends at the cut and a NUL.
    parts = [
        doors.keys("data/s/", start_after=low, stop_before=f"{high}\0" if high else "")
        for low, high in pairwise(cuts)
    ]
    assert [key for part in parts for key in part] == keys


def test_a_level_shows_folders_and_objects_apart(doors: Doors) -> None:
    for key in ("data/s2/a", "data/s1/a", "data/s1/b", "data/file", "top"):
        doors.writer.put(key, b"12")
    top, level = doors.reader.list_level(), doors.reader.list_level("data/")
    assert (top.folders, [o.key for o in top.objects]) == (["data/"], ["top"])
    assert (level.folders, [o.key for o in level.objects]) == (["data/s1/", "data/s2/"], ["data/file"])
    assert level.objects[0].size == 2
    assert level.objects[0].last_modified.tzinfo is UTC
    assert doors.reader.list_level("data/s").folders == ["data/s1/", "data/s2/"]


def test_put_replaces_and_changes_the_etag(doors: Doors) -> None:
    one = doors.writer.put("k", b"one")
    two = doors.writer.put("k", b"two")
    assert doors.reader.get("k") == b"two"
    assert one != two


def test_put_if_absent_never_replaces(doors: Doors) -> None:
    doors.writer.put_if_absent("lease", b"first")
    with pytest.raises(ConflictError):
        doors.writer.put_if_absent("lease", b"second")
    with pytest.raises(ConflictError):
        doors.writer.put_stream("lease", iter([b"third"]), if_absent=True)
    assert doors.reader.get("lease") == b"first"


def test_put_if_match_replaces_only_the_expected_version(doors: Doors) -> None:
    first = doors.writer.put("state", b"1")
    assert first is not None
    second = doors.writer.put_if_match("state", b"2", first)
    assert second is not None
    with pytest.raises(ConflictError):
        doors.writer.put_if_match("state", b"3", first)
    with pytest.raises(ConflictError):
        doors.writer.put_if_match("absent", b"3", first)
    assert doors.reader.get("state") == b"2"
    assert doors.keys() == ["state"]
    doors.writer.put_if_match("state", b"3", second)
    assert doors.reader.stat("state").etag != second


def test_of_many_put_if_absent_one_wins(doors: Doors) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def attempt(number: int) -> None:
        start.wait()
        try:
            doors.writer.put_if_absent("data/lease", b"%d" % number)
            won.append(number)
        except ConflictError:
            pass

    threads = [threading.Thread(target=attempt, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert doors.reader.get("data/lease") == b"%d" % won[0]
    assert doors.keys() == ["data/lease"]


def test_get_many_keeps_order_and_raises_on_any_missing_key(doors: Doors) -> None:
    keys = [f"r/{i}" for i in range(40)]
    for key in keys:
        doors.writer.put(key, key.encode())
    asked = keys[::-1] + keys[:3]
    assert list(doors.reader.get_many(asked, concurrency=5)) == [(k, k.encode()) for k in asked]
    assert list(doors.reader.get_many([])) == []
    read = doors.reader.get_many([*keys[:10], "missing", *keys[10:]], concurrency=4)
    with pytest.raises(NotFoundError):
        list(read)


def test_ranges_end_where_the_object_does(doors: Doors) -> None:
    doors.writer.put("k", b"0123456789")
    assert doors.reader.get_range("k", 2, 3) == b"234"
    assert doors.reader.get_range("k", 8, 100) == b"89"
    assert doors.reader.get_range("k", 10, 5) == doors.reader.get_range("k", 50, 5) == b""
    assert doors.reader.get_range("k", 3, 0) == b""
    with doors.reader.open_read("k", 4) as stream:
        assert b"".join(stream) == b"456789"
        assert stream.info.size == 10
    with pytest.raises(NotFoundError):
        doors.reader.get_range("missing", 0, 1)


def test_streams_are_whole_or_not_at_all(doors: Doors, tmp_path: Path) -> None:
    chunks = [bytes([i]) * 700_000 for i in range(30)]
    info = doors.writer.put_stream("big", iter(chunks))
    assert info.size == 21_000_000
    with doors.reader.open_read("big") as stream:
        pieces = list(stream)
    assert b"".join(pieces) == b"".join(chunks)
    if doors.kind != "remote":  # the client's memory store hands out what it holds
        assert max(map(len, pieces)) <= 1 << 20
    source = tmp_path.parent / f"{uuid.uuid4().hex}.bin"
    source.write_bytes(b"from a file")
    assert doors.writer.put_file("file", str(source)).size == 11
    source.unlink()

    def broken() -> Iterator[bytes]:
        yield from chunks
        raise RuntimeError("the client went away")

    doors.writer.put("half", b"old")
    for key in ("half", "new/half"):
        with pytest.raises(RuntimeError, match="went away"):
            doors.writer.put_stream(key, broken())
    assert doors.reader.get("half") == b"old"
    assert doors.keys() == ["big", "file", "half"]


def test_copy_copies(doors: Doors) -> None:
    doors.writer.put("data/a b%20+", b"content")
    doors.writer.put("data/target", b"old")
    assert doors.writer.copy("data/a b%20+", "data/target").size == 7
    assert doors.reader.get("data/target") == doors.reader.get("data/a b%20+") == b"content"
    with pytest.raises(NotFoundError):
        doors.writer.copy("missing", "data/other")
    assert doors.keys() == ["data/a b%20+", "data/target"]


def test_delete_answers_for_every_key_in_input_order_and_keeps_the_rest(doors: Doors) -> None:
    for key in ("data/a", "data/b", "data/c", "data/ab", "data/a/deep"[:6]):
        doors.writer.put(key, b"")
    keys = ["data/c", "data/missing", "data/a", "data/a", "data/b/below"]
    outcomes = doors.deleter.delete(keys)
    assert [o.key for o in outcomes] == keys
    missing = (
        "deleted" if doors.kind in ("s3", "remote") else "missing"
    )  # S3 and this client's memory do not tell
    assert [o.outcome for o in outcomes] == ["deleted", missing, "deleted", "deleted", missing]
    assert doors.keys() == ["data/ab", "data/b"]
    assert doors.deleter.delete([]) == []


def test_delete_never_takes_an_object_of_another_name(doors: Doors) -> None:
    """P14: the native client deletes data/dir when it is told data/dir/."""
    doors.writer.put("data/dir", b"live")
    doors.writer.put("data/a", b"live")
    names = [
        "data/dir/",
        "/data/dir",
        "data//dir",
        "data/./dir",
        "data/x/../dir",
        "data/dir//",
        "data/di",
        "data/DIR",
    ]
    names += [
        "data/dir ",
        " data/dir",
        "data/dir\t",
        "data%2Fdir",
        "data/dir/.",
        "",
        "/",
        ".",
        "..",
        "data",
        "data/",
    ]
    names += ["data/dir\0", "data/di*", "\udcff", "data/dir\udcff"]
    if (
        doors.kind == "s3"
    ):  # the test server takes keys without regard to the path's meaning, but not these two
        names.remove("data/dir\0")
    outcomes = doors.deleter.delete(names)
    assert [o.key for o in outcomes] == names
    assert doors.keys() == ["data/a", "data/dir"]
    assert doors.reader.get("data/dir") == b"live"
    for key in ("", "\udcff", "data/dir\udcff"):
        assert outcomes[names.index(key)].outcome == "not_addressable"


def test_writing_a_name_the_store_cannot_hold_is_refused(doors: Doors) -> None:
    for key in ("", "\udcff"):
        with pytest.raises(ConfigError):
            doors.writer.put(key, b"")
    if doors.kind in ("local", "remote"):
        for key in ("a//b", "/a", "a/", "a/../b", ".", "a/./b"):
            with pytest.raises(ConfigError):
                doors.writer.put(key, b"")
    assert doors.keys() == []


def test_doors_travel_to_other_processes(doors: Doors) -> None:
    doors.writer.put("k", b"v")
    reader, writer, deleter = pickle.loads(pickle.dumps((doors.reader, doors.writer, doors.deleter)))
    assert reader.get("k") == b"v"
    writer.put("k2", b"v2")
    assert [o.outcome for o in deleter.delete(["k"])] == ["deleted"]
    assert doors.keys() == ["k2"]


def test_store_clock_is_the_stores_own_and_leaves_one_probe(doors: Doors) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    first = store_clock(doors.writer, "_lakefs/gc")
    second = store_clock(doors.writer, "_lakefs/gc/")
    tick = timedelta(milliseconds=10)
    assert before <= first <= second + tick <= datetime.now(UTC) + timedelta(seconds=2)
    assert len(doors.keys()) == 1
    assert doors.keys("data/") == []


def test_listing_batches_are_never_empty(doors: Doors) -> None:
    doors.writer.put("data/a", b"")
    batches = list(doors.reader.list("data/"))
    assert all(isinstance(batch, pa.RecordBatch) and batch.num_rows for batch in batches)
    assert list(doors.reader.list("data/", start_after="data/a")) == []
