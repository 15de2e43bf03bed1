"""A state is what was written or none, and moves on from where a run found it or not at all."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import ConflictError, FormatError, RefusedError
from dredge.runs.folder import RunFolder
from dredge.runs.versions import AUTO, CLEAN, OPTIMIZED, POINTER, Current, Version, choose_mode
from dredge.storage import ObjectWriter, open_deleter, open_writer
from tests.support.memory_store import forget_memory_store
from tests.support.versions import FORMAT, Told, ToldVersions

DAY = timedelta(days=1)


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://versions-test/own")
    forget_memory_store("versions-test")


@pytest.fixture
def store(writer: ObjectWriter) -> ToldVersions:
    return ToldVersions(writer)


@pytest.fixture
def state(writer: ObjectWriter) -> Told:
    return Told("r1", "lake", (RunFolder(writer, "r1").write_bytes("counted/a", b"counts", 1),))


@pytest.fixture
def version(store: ToldVersions, state: Told) -> Version:
    return store.advance(state, Current())


@pytest.mark.parametrize("fits", [{"about": "another"}, {"about": lambda about: about != "lake"}])
def test_a_state_about_something_else_is_none(
    store: ToldVersions, version: Version, fits: Mapping[str, Any]
) -> None:
    found = store.find(fits)
    assert (found.etag, found.version, found.state) == (store.etag, version, None)


@pytest.mark.parametrize(("number", "is_newer"), [(FORMAT - 1, False), (FORMAT + 1, True)])
def test_a_state_of_an_older_format_is_none_and_one_of_a_newer_stops_the_run(
    store: ToldVersions, state: Told, number: int, is_newer: bool
) -> None:
    store.advance(replace(state, format=number), Current())
    if is_newer:
        with pytest.raises(RefusedError):
            store.find({})
    else:
        assert store.find({}).state is None


@pytest.mark.parametrize("damage", ["version", "version gone", "file", "file gone", "distrusted"])
def test_a_state_of_which_anything_is_damaged_is_none(
    store: ToldVersions, writer: ObjectWriter, version: Version, damage: str
) -> None:
    name = version.name if damage.startswith("version") else "counted/a"
    if damage == "distrusted":
        store.distrust(version, "its counts are wrong")
    elif damage.endswith("gone"):
        open_deleter(writer.uri).delete([name])
    else:
        writer.put(name, writer.get(name).replace(b"s", b"t"))
    found = store.find({})
    assert (found.etag, found.version, found.state) == (store.etag, version, None)
    assert store.newest() == version


@pytest.mark.parametrize("data", [b"{}", b"no JSON"])
def test_a_damaged_pointer_leads_nowhere_and_can_be_replaced(
    store: ToldVersions, state: Told, version: Version, writer: ObjectWriter, data: bytes
) -> None:
    writer.put(POINTER, data)
    found = store.find({})
    assert (found.etag, found.version, found.state) == (store.etag, None, None)
    with pytest.raises(FormatError):
        store.newest()
    assert store.advance(state, found) == store.find({}).version


def test_the_state_moves_on_only_from_where_the_run_found_it(store: ToldVersions, state: Told) -> None:
    first = store.advance(state, Current())
    found = store.find({})
    second = store.advance(replace(state, run_id="r2"), found)
    for before in (Current(), found):
        with pytest.raises(ConflictError):
            store.advance(replace(state, run_id="r3"), before)
    assert first != second == store.newest()
    assert store.read(first.name, first.sha256) == state, "an earlier version stays"


@pytest.mark.parametrize("data", [b"[]", b"no JSON"])
def test_a_pointer_that_says_nothing_is_of_no_earlier_try(
    store: ToldVersions, state: Told, writer: ObjectWriter, data: bytes
) -> None:
    writer.put(POINTER, data)
    with pytest.raises(ConflictError):
        store.advance(state, Current(), 9)
    assert writer.get(POINTER) == data


@pytest.mark.parametrize("earlier", [False, True])
def test_a_run_that_moves_the_state_between_the_look_of_another_and_its_write_wins(
    store: ToldVersions, state: Told, earlier: bool
) -> None:
    if earlier:
        store.advance(state, Current())
    before = store.find({})
    moved: list[Version] = []

    class Slow(ToldVersions):
        def _etag(self) -> str | None:
            found = super()._etag()
            moved.append(store.advance(replace(state, run_id="r2"), before))
            return found

    with pytest.raises(ConflictError):
        Slow(store.writer).advance(replace(state, run_id="r3"), before)
    assert [store.newest()] == moved


@pytest.mark.parametrize(
    ("mode", "age", "problem", "chosen"),
    [
        (CLEAN, 1, "", (CLEAN, "asked for")),
        (OPTIMIZED, None, "", (CLEAN, "there is no earlier complete run")),
        (AUTO, None, "gone", (CLEAN, "the state of earlier runs is unusable: gone")),
        (OPTIMIZED, 99, "", (OPTIMIZED, "builds on run r1")),
        (AUTO, 6.99, "", (OPTIMIZED, "builds on run r1")),
        (AUTO, 7, "", (CLEAN, "the last clean run was 7 days ago")),
    ],
)
def test_a_run_is_a_clean_one_when_it_is_time_or_there_is_nothing_to_build_on(
    state: Told, mode: str, age: float | None, problem: str, chosen: tuple[str, str]
) -> None:
    current = Current(state=None if age is None else state, problem=problem)
    assert choose_mode(mode, 7, current, state.clean_at + (age or 0) * DAY) == chosen
