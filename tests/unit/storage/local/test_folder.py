"""A local store stays below its root, keeps names exact, and shows no half-written object."""

import logging
import os
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.errors import ConfigError, ConflictError, NotFoundError, UnavailableError
from dredge.storage import ObjectReader, StorageOptions, open_deleter, open_reader, open_writer
from dredge.storage.local.store import Folder, list_folder


def open_all(root: Path):  # type: ignore[no-untyped-def]
    uri, options = f"file://{root}", StorageOptions()
    return open_reader(uri, options), open_writer(uri, options), open_deleter(uri, options)


def listed(reader: ObjectReader, prefix: str = "", **bounds: str) -> list[str]:
    return [key for batch in reader.list(prefix, **bounds) for key in batch.column(0).to_pylist()]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("live")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    (folder / "data").mkdir(parents=True)
    return folder


def test_a_link_is_no_way_out_of_the_root(root: Path, outside: Path) -> None:
    (root / "data" / "folder").symlink_to(outside)
    (root / "data" / "file").symlink_to(outside / "precious")
    (root / "data" / "inside").write_text("x")
    (root / "data" / "link-to-inside").symlink_to(root / "data" / "inside")
    reader, writer, deleter = open_all(root)
    skipped: list[str] = []
    keys = [k for b in reader.list(on_skipped=skipped.append) for k in b.column(0).to_pylist()]
    assert keys == ["data/inside"]
    assert len(skipped) == 3
    for key in ("data/folder/precious", "data/file", "data/folder", "data/link-to-inside"):
        with pytest.raises(NotFoundError):
            reader.get(key)
        with pytest.raises(NotFoundError):
            reader.stat(key)
        assert deleter.delete([key])[0].outcome == "missing"
    with pytest.raises(ConfigError):
        writer.put("data/folder/new", b"x")
    assert sorted(os.listdir(outside)) == ["precious"]
    assert (outside / "precious").read_text() == "live"
    assert (root / "data" / "file").is_symlink()


def test_writing_over_a_link_replaces_the_link_and_not_its_target(root: Path, outside: Path) -> None:
    (root / "data" / "file").symlink_to(outside / "precious")
    _, writer, _ = open_all(root)
    with pytest.raises(ConflictError):
        writer.put_if_absent("data/file", b"mine")
    writer.put("data/file", b"mine")
    assert (outside / "precious").read_text() == "live"
    assert writer.get("data/file") == b"mine"


def test_names_that_are_no_text_are_reported_and_never_touched(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw = os.fsencode(root / "data")
    for name in (b"bad\xff", b"caf\xe9"):
        with open(os.path.join(raw, name), "wb"):
            pass
    os.mkdir(os.path.join(raw, b"dir\xff"))
    with open(os.path.join(raw, b"dir\xff", b"file"), "wb"):
        pass
    (root / "data" / "bad\ufffd").write_text("another object")
    reader, _, deleter = open_all(root)
    skipped: list[str] = []
    keys = [k for b in reader.list(on_skipped=skipped.append) for k in b.column(0).to_pylist()]
    assert keys == ["data/bad\ufffd"]
    assert len(skipped) == 3
    assert any(r"bad\xff" in name for name in skipped)
    with caplog.at_level(logging.WARNING):
        assert listed(reader) == keys
    assert len(caplog.records) == 3
    for key in ("data/bad\udcff", "data/dir\udcff/file"):
        assert deleter.delete([key])[0].outcome == "not_addressable"
        with pytest.raises(NotFoundError):
            reader.get(key)
    assert len(os.listdir(raw)) == 4


def test_pipes_and_folders_are_no_objects(root: Path) -> None:
    os.mkfifo(root / "data" / "pipe")
    (root / "data" / "folder").mkdir()
    reader, _, deleter = open_all(root)
    for key in ("data/pipe", "data/folder"):
        with pytest.raises(NotFoundError):
            reader.get(key)
        assert deleter.delete([key])[0].outcome == "missing"
    assert listed(reader) == []
    assert (root / "data" / "folder").is_dir()


def test_deleting_removes_folders_that_became_empty_but_not_the_root_nor_others(root: Path) -> None:
    _, writer, deleter = open_all(root)
    for key in ("data/a/b/c/x", "data/a/y", "data/z/1", "data/z/2"):
        writer.put(key, b"")
    (root / "data" / "empty-of-someone-else").mkdir()
    deleter.delete(["data/a/b/c/x", "data/z/1", "data/nothing/here"])
    assert (root / "data" / "a").is_dir()
    assert not (root / "data" / "a" / "b").exists()
    assert (root / "data" / "z").is_dir()
    deleter.delete(["data/a/y", "data/z/2"])
    assert sorted(os.listdir(root / "data")) == ["empty-of-someone-else"]
    (root / "data" / "empty-of-someone-else").rmdir()
    (root / "data").rmdir()
    writer.put("only", b"")
    deleter.delete(["only"])
    assert root.is_dir()


def test_writers_and_a_deleter_of_the_same_folder_never_lose_a_write(root: Path) -> None:
    _, writer, deleter = open_all(root)
    stop = threading.Event()
    errors: list[BaseException] = []

    def delete() -> None:
        while not stop.is_set():
            deleter.delete([f"data/s/garbage{n}" for n in range(4)])

    def write(number: int) -> None:
        try:
            for n in range(40):
                writer.put(f"data/s/garbage{n % 4}", b"")
                writer.put(f"data/s/t{number}/live", b"%d" % n)
                assert writer.get(f"data/s/t{number}/live") == b"%d" % n
                deleter.delete([f"data/s/t{number}/live"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    cleaner = threading.Thread(target=delete)
    for thread in (*threads, cleaner):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    cleaner.join()
    assert errors == []


def test_unfinished_writes_are_never_shown_addressed_or_left(root: Path) -> None:
    reader, writer, deleter = open_all(root)
    left = root / "data" / ".dredge-tmp~0123"
    left.write_text("of a process that was killed")
    writer.put("data/x", b"1")
    assert listed(reader) == ["data/x"]
    assert [o.key for o in reader.list_level("data/").objects] == ["data/x"]
    with pytest.raises(NotFoundError):
        reader.get("data/.dredge-tmp~0123")
    with pytest.raises(ConfigError):
        writer.put("data/.dredge-tmp~0123", b"")
    assert deleter.delete(["data/.dredge-tmp~0123"])[0].outcome == "not_addressable"
    writer.put("data/.dredge-tmp", b"this name is free")
    assert listed(reader) == ["data/.dredge-tmp", "data/x"]
    assert sorted(os.listdir(root / "data")) == [".dredge-tmp", ".dredge-tmp~0123", "x"]


def test_a_reader_sees_the_old_object_or_the_new_one_and_nothing_between(root: Path) -> None:
    reader, writer, _ = open_all(root)
    writer.put("k", b"0" * 300_000)
    stop = threading.Event()
    torn: list[bytes] = []

    def read() -> None:
        while not stop.is_set():
            data = reader.get("k")
            if len(data) != 300_000 or len(set(data)) != 1:
                torn.append(data[:10])

    thread = threading.Thread(target=read)
    thread.start()
    for n in range(50):
        writer.put("k", bytes([48 + n % 10]) * 300_000)
    stop.set()
    thread.join()
    assert torn == []


def test_no_two_versions_of_an_object_have_the_same_etag(root: Path) -> None:
    _, writer, _ = open_all(root)
    etags = [writer.put("state", b"same size") for _ in range(100)]
    assert len(set(etags)) == 100
    assert etags[-1] == writer.stat("state").etag


def test_a_name_that_is_already_a_folder_or_below_a_file_is_refused(root: Path) -> None:
    reader, writer, _ = open_all(root)
    writer.put("a/b", b"1")
    for key in ("a", "a/b/c"):
        with pytest.raises(ConfigError):
            writer.put(key, b"2")
    with pytest.raises(ConfigError):
        writer.put("x" * 300, b"")
    assert listed(reader) == ["a/b"]
    assert reader.get("a/b") == b"1"


def test_errors_of_the_system_become_families(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer, deleter = open_all(root)
    writer.put("data/x", b"1")

    number = 13

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.lstat", fail)
    with pytest.raises(ConfigError):
        reader.get("data/x")
    with pytest.raises(ConfigError):
        list(reader.list())
    assert deleter.delete(["data/x"])[0].outcome == "failed"
    number = 5
    with pytest.raises(UnavailableError):
        reader.get("data/x")
    outcome = deleter.delete(["data/x"])[0]
    assert (outcome.outcome, outcome.code) == ("failed", "EIO")


def test_a_folder_that_cannot_be_read_stops_the_listing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer, _ = open_all(root)
    for key in ("data/a/1", "data/b/1", "data/c/1"):
        writer.put(key, b"")
    real = os.scandir

    def fussy(path: str):  # type: ignore[no-untyped-def]
        if path.endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("os.scandir", fussy)
    with pytest.raises(ConfigError):
        list(reader.list("data/"))


def test_objects_deleted_while_listing_are_left_out(root: Path) -> None:
    _, writer, deleter = open_all(root)
    for n in range(20):
        writer.put(f"data/{n:02d}/x", b"")
    seen = []
    for batch in list_folder(Folder(str(root)), "data/", "", "", None, 1):
        seen += batch.column(0).to_pylist()
        deleter.delete(["data/05/x", "data/06/x"])
    assert seen == [f"data/{n:02d}/x" for n in range(20) if n not in (5, 6)]


segments = st.text(st.sampled_from("ab-./0é~ "), min_size=1, max_size=4).filter(
    lambda s: "/" not in s and s not in (".", "..")
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(segments, min_size=1, max_size=4).map("/".join), max_size=12), st.data())
def test_any_listing_equals_the_sorted_keys_between_the_bounds(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], data: st.DataObject
) -> None:
    _, writer, _ = open_all(tmp_path_factory.mktemp("lake"))
    present = []
    for key in random.Random(1).sample(keys, len(keys)):
        try:
            writer.put(key, b"")
        except ConfigError:
            continue  # beside an object of the same name as a folder
        present.append(key)
    present = sorted(set(present), key=str.encode)
    some = st.one_of(st.just(""), st.sampled_from(present or [""]), segments, st.text("ab-/.", max_size=5))
    prefix, low, high = data.draw(some), data.draw(some), data.draw(some)
    expected = [
        k for k in present if k.startswith(prefix) and (not low or k > low) and (not high or k < high)
    ]
    assert listed(writer, prefix, start_after=low, stop_before=high) == expected
