"""One object comes back where its key is free, as the run deleted it, or it is said why not."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import structs

from dredge.errors import ConfigError, FormatError, UnavailableError
from dredge.storage import ObjectVersion, open_deleter, open_versions, open_writer
from dredge.storage.model import ObjectInfo, ObjectWriter
from dredge.undo.putting_back import FAILED, GONE, REFUSED, RESTORED, TAKEN, THERE, PuttingBack, Restored
from dredge.undo.ways import OFF, QUARANTINE, VERSIONS, quarantine_uri
from tests.support.memory_store import (
    MemoryReader,
    MemoryStore,
    MemoryVersionDeleter,
    MemoryVersions,
    MemoryWriter,
    forget_memory_store,
    memory_store,
)
from tests.support.memory_versions import OlderVersions

KEY, GARBAGE, OTHERS = "data/a", b"garbage", b"another"
WAYS = (VERSIONS, QUARANTINE, OFF)


@pytest.fixture
def lake() -> Iterator[str]:
    """URI of a namespace in a store that keeps versions."""
    name = f"putting-back-{uuid.uuid4().hex[:8]}"
    memory_store(name).older = OlderVersions()
    yield f"memory://{name}/lake"
    forget_memory_store(name)


def store_of(lake: str) -> MemoryStore:
    return memory_store(lake.split("/")[2])


def deleted(lake: str, content: bytes = GARBAGE) -> dict[str, Any]:
    """Put an object, and delete it as a run does; gives what the run knows of it."""
    writer = open_writer(lake)
    writer.put(KEY, content)
    found = writer.stat(KEY)
    open_deleter(lake).delete([KEY])
    return {"address": KEY, "size": found.size, "etag": found.etag}


def put_back(lake: str, row: dict[str, Any], way: str) -> Restored:
    return PuttingBack(lake, f"{lake}/run", way).put_back(row)


def outcome(lake: str, row: dict[str, Any], way: str) -> tuple[str, str]:
    found = put_back(lake, row, way)
    return found.outcome, found.way


def copies_of(lake: str) -> ObjectWriter:
    return open_writer(quarantine_uri(f"{lake}/run"))


@pytest.mark.parametrize("way", WAYS)
def test_what_neither_a_copy_nor_a_version_holds_is_gone(way: str, lake: str) -> None:
    row = {"address": KEY, "size": 7, "etag": None}
    assert put_back(lake, row, way) == Restored(GONE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("content", [OTHERS, b"longer than that"])
def test_what_somebody_put_under_the_key_stays(way: str, content: bytes, lake: str) -> None:
    row = deleted(lake)
    copies_of(lake).put(KEY, GARBAGE)
    open_writer(lake).put(KEY, content)
    found = put_back(lake, row, way)
    assert (found.outcome, found.way) == (TAKEN, "")
    assert open_writer(lake).get(KEY) == content


def seen_as(stand_in: Any, lake: str, etag: str | None) -> None:
    """Let the store tell this tag of what is there."""
    honest = open_writer(lake).stat(KEY)
    info = ObjectInfo(honest.key, honest.size, honest.last_modified, etag)
    stand_in(MemoryReader.stat, lambda *_: info)


PLAIN, OTHER_PLAIN, PIECES = "a" * 32, "b" * 32, f"{'c' * 32}-2"


@pytest.mark.parametrize(
    ("listed", "there", "by_versions", "by_copies"),
    [
        (PLAIN, PLAIN, THERE, THERE),
        (PLAIN, OTHER_PLAIN, TAKEN, TAKEN),
        (PIECES, PLAIN, TAKEN, THERE),  # a copy that is made in one piece has another tag
        (PLAIN, PIECES, TAKEN, THERE),
        (None, PLAIN, THERE, THERE),
        (PLAIN, None, TAKEN, THERE),
    ],
)
def test_of_objects_of_the_same_length_tags_tell_as_far_as_the_way_keeps_them(
    listed: str | None,
    there: str | None,
    by_versions: str,
    by_copies: str,
    lake: str,
    stand_in: Any,
) -> None:
    open_writer(lake).put(KEY, GARBAGE)
    seen_as(stand_in, lake, there)
    row = {"address": KEY, "size": 7, "etag": listed}
    assert [outcome(lake, row, way) for way in WAYS] == [(by_versions, ""), (by_copies, ""), (by_copies, "")]


@pytest.mark.parametrize("content", [b"longer than that", OTHERS])
def test_another_object_that_was_deleted_since_is_left_below_its_marker(content: bytes, lake: str) -> None:
    row = deleted(lake)
    deleted(lake, content)
    copies_of(lake).put(KEY, GARBAGE)
    found = put_back(lake, row, VERSIONS)
    assert (found.outcome, found.way) == (GONE, "")
    assert open_versions(lake).versions(KEY)[0].is_marker


def test_all_markers_above_the_version_are_taken_away_and_no_version_is(lake: str) -> None:
    row, store = deleted(lake), store_of(lake)
    assert store.older is not None
    for _ in range(3):
        store.older.mark(f"lake/{KEY}", store.clock())
    assert outcome(lake, row, VERSIONS) == (RESTORED, VERSIONS)
    assert [(item.size, item.is_latest) for item in open_versions(lake).versions(KEY)] == [(7, True)]


def test_what_is_put_under_the_key_while_markers_go_is_looked_at(lake: str, stand_in: Any) -> None:
    row = deleted(lake)

    def late(honest: Any, *asked: Any) -> object:
        open_writer(lake).put(KEY, OTHERS)
        return honest(*asked)

    stand_in(MemoryVersionDeleter.delete, late)
    assert outcome(lake, row, VERSIONS) == (TAKEN, "")
    assert open_writer(lake).get(KEY) == OTHERS


def test_what_is_put_under_the_key_between_look_and_copy_stays(lake: str, stand_in: Any) -> None:
    row = deleted(lake)
    copies_of(lake).put(KEY, GARBAGE)

    def late(honest: Any, writer: object, key: str, *more: Any, **named: Any) -> object:
        open_writer(lake).put(key, OTHERS)
        return honest(writer, key, *more, **named)

    stand_in(MemoryWriter.put_stream, late)
    assert outcome(lake, row, QUARANTINE) == (TAKEN, "")
    assert open_writer(lake).get(KEY) == OTHERS


def test_where_no_version_is_the_current_one_none_is_taken_away(lake: str, stand_in: Any) -> None:
    row = deleted(lake)

    def without_a_current_one(honest: Any, *asked: Any) -> list[ObjectVersion]:
        return [structs.replace(item, is_latest=False) for item in honest(*asked)]

    stand_in(MemoryVersions.versions, without_a_current_one)
    assert outcome(lake, row, VERSIONS) == (FAILED, VERSIONS)
    assert [item.is_marker for item in open_versions(lake).versions(KEY)] == [True, False]


def failing(error: Exception, before: bytes | None = None, lake: str = "") -> Callable[..., object]:
    """Fails to write, after it may have done something."""

    def write(_honest: object, _writer: object, key: str, *_more: Any, **_named: Any) -> object:
        if before is not None:
            open_writer(lake).put(key, before)
        raise error

    return write


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnavailableError("SlowDown"), FAILED),
        (FormatError("the copy has another size"), FAILED),
        (ConfigError("copying: XMinioInvalidObjectName unsupported characters"), REFUSED),
    ],
)
def test_an_error_of_one_object_is_told_and_never_raised(
    error: Exception, outcome: str, lake: str, stand_in: Any
) -> None:
    row = deleted(lake)
    copies_of(lake).put(KEY, GARBAGE)
    stand_in(MemoryWriter.put_stream, failing(error))
    assert put_back(lake, row, QUARANTINE) == Restored(outcome, "", str(error))


def test_a_copy_of_another_length_is_not_put_back(lake: str) -> None:
    row = deleted(lake)
    copies_of(lake).put(KEY, b"half")
    assert outcome(lake, row, QUARANTINE) == (FAILED, "")
    assert open_versions(lake).versions(KEY)[0].is_marker
