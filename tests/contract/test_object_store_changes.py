"""What every object store driver promises of writing and deleting, on every driver."""

import threading
from collections.abc import Iterator

import pytest

from dredge.errors import ConfigError, ConflictError, NotFoundError
from tests.support.object_stores import Stores


def test_put_replaces_and_changes_the_etag(stores: Stores) -> None:
    one = stores.writer.put("k", b"one")
    two = stores.writer.put("k", b"two")
    assert stores.reader.get("k") == b"two"
    assert one != two


def test_put_if_absent_never_replaces(stores: Stores) -> None:
    stores.writer.put_if_absent("lease", b"first")
    with pytest.raises(ConflictError):
        stores.writer.put_if_absent("lease", b"second")
    with pytest.raises(ConflictError):
        stores.writer.put_stream("lease", iter([b"third"]), if_absent=True)
    assert stores.reader.get("lease") == b"first"


def test_put_if_match_replaces_only_the_expected_version(stores: Stores) -> None:
    first = stores.writer.put("state", b"1")
    assert first is not None
    second = stores.writer.put_if_match("state", b"2", first)
    assert second is not None
    with pytest.raises(ConflictError):
        stores.writer.put_if_match("state", b"3", first)
    with pytest.raises(ConflictError):
        stores.writer.put_if_match("absent", b"3", first)
    assert stores.reader.get("state") == b"2"
    assert stores.keys() == ["state"]
    stores.writer.put_if_match("state", b"3", second)
    assert stores.reader.stat("state").etag != second


def test_of_many_put_if_absent_one_wins(stores: Stores) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def attempt(number: int) -> None:
        start.wait()
        try:
            stores.writer.put_if_absent("data/lease", b"%d" % number)
            won.append(number)
        except ConflictError:
            pass

    threads = [threading.Thread(target=attempt, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert stores.reader.get("data/lease") == b"%d" % won[0]
    assert stores.keys() == ["data/lease"]


def test_streams_are_whole_or_not_at_all(stores: Stores) -> None:
    chunks = [bytes([i]) * 700_000 for i in range(30)]
    info = stores.writer.put_stream("big", iter(chunks))
    assert info.size == 21_000_000
    with stores.reader.open_read("big") as stream:
        pieces = list(stream)
    assert b"".join(pieces) == b"".join(chunks)
    assert max(map(len, pieces)) <= 1 << 20

    def broken() -> Iterator[bytes]:
        yield from chunks
        raise RuntimeError("the client went away")

    stores.writer.put("half", b"old")
    for key in ("half", "new/half"):
        with pytest.raises(RuntimeError, match="went away"):
            stores.writer.put_stream(key, broken())
    assert stores.reader.get("half") == b"old"
    assert stores.keys() == ["big", "half"]


def test_copy_copies(stores: Stores) -> None:
    stores.writer.put("data/a b%20+", b"content")
    stores.writer.put("data/target", b"old")
    assert stores.writer.copy("data/a b%20+", "data/target").size == 7
    assert stores.reader.get("data/target") == stores.reader.get("data/a b%20+") == b"content"
    with pytest.raises(NotFoundError):
        stores.writer.copy("missing", "data/other")
    assert stores.keys() == ["data/a b%20+", "data/target"]


def test_delete_answers_for_every_key_in_input_order_and_keeps_the_rest(stores: Stores) -> None:
    for key in ("data/a", "data/b", "data/c", "data/ab", "data/a/deep"[:6]):
        stores.writer.put(key, b"")
    keys = ["data/c", "data/missing", "data/a", "data/a", "data/b/below"]
    outcomes = stores.deleter.delete(keys)
    assert [o.key for o in outcomes] == keys
    missing = "deleted" if stores.kind == "s3" else "missing"  # S3 does not tell
    assert [o.outcome for o in outcomes] == ["deleted", missing, "deleted", "deleted", missing]
    assert stores.keys() == ["data/ab", "data/b"]
    assert stores.deleter.delete([]) == []


def test_delete_never_takes_an_object_of_another_name(stores: Stores) -> None:
    stores.writer.put("data/dir", b"live")
    stores.writer.put("data/a", b"live")
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
        stores.kind == "s3"
    ):  # the test server takes keys without regard to the path's meaning, but not these two
        names.remove("data/dir\0")
    outcomes = stores.deleter.delete(names)
    assert [o.key for o in outcomes] == names
    assert stores.keys() == ["data/a", "data/dir"]
    assert stores.reader.get("data/dir") == b"live"
    for key in ("", "\udcff", "data/dir\udcff"):
        assert outcomes[names.index(key)].outcome == "not_addressable"


def test_writing_a_name_the_store_cannot_hold_is_refused(stores: Stores) -> None:
    for key in ("", "\udcff"):
        with pytest.raises(ConfigError):
            stores.writer.put(key, b"")
    refused = {"local": ("a//b", "/a", "a/", "a/../b", ".", "a/./b")}
    refused |= {"azure": ("a/../b", ".", "a/./b", "a./b", "a\\b", "a\x7f", "é" * 1025)}
    for key in refused.get(stores.kind, ()):
        with pytest.raises(ConfigError):
            stores.writer.put(key, b"")
    assert stores.keys() == []
