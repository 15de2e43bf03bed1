"""The folder of the cleaner: what tries share is replaced only by who read it, and only as it was read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dredge.errors import (
    FormatError,
    LeaseHeldError,
)
from dredge.runs.payload import to_json
from dredge.trash.partition_rules import Noted
from dredge.trash.state import TrashState
from tests.support.kv_world import START, memory_store
from tests.support.memory_store import MemoryWriter

SEEN = Noted(named=frozenset({"p"}))


@pytest.fixture
def held(state: TrashState) -> Iterator[TrashState]:
    with state.held("a run") as mine:
        yield mine


def read(state: TrashState, key: str) -> Any:
    return json.loads(state.writer.get(key))


def test_who_does_not_hold_the_folder_writes_nothing_that_tries_share(state: TrashState) -> None:
    with pytest.raises(LeaseHeldError):
        state.check_right()
    with pytest.raises(LeaseHeldError):
        state.save_noted(SEEN)
    with pytest.raises(LeaseHeldError):
        state.set_open_run("r")
    assert state.noted() == Noted()
    assert state.open_run() is None


def test_what_somebody_wrote_since_it_was_read_is_not_replaced(held: TrashState) -> None:
    held.noted()
    held.writer.put("noted.json", json.dumps(to_json(SEEN)).encode())
    with pytest.raises(LeaseHeldError):
        held.save_noted(Noted())
    assert held.noted() == SEEN


def test_what_somebody_wrote_since_it_was_written_here_is_not_replaced(held: TrashState) -> None:
    held.save_noted(Noted())
    held.save_noted(Noted(missed={"q": START}))
    held.writer.put("noted.json", json.dumps(to_json(SEEN)).encode())
    with pytest.raises(LeaseHeldError):
        held.save_noted(Noted())
    assert held.noted() == SEEN


def test_every_run_that_removed_rows_of_a_partition_is_remembered_until_its_rows_are_back(
    held: TrashState,
) -> None:
    for run in ("first", "second", "third", "first"):
        held.note_removed([b"p", b"q"], run, START)
    assert held.removed_by() == {name: ["second", "third", "first"] for name in (b"p", b"q")}
    held.forget_removed([b"p"], "third")
    assert held.removed_by() == {b"p": ["second", "first"], b"q": ["second", "third", "first"]}
    for run in ("second", "first"):
        held.forget_removed([b"p"], run)
    assert held.removed_by() == {b"q": ["second", "third", "first"]}


def test_removals_of_two_at_once_are_both_remembered(held: TrashState, stand_in: Any) -> None:
    others = [b"theirs"]

    def another_first(honest: Any, writer: object, key: str, data: bytes) -> object:
        if others:
            TrashState(held.writer).note_removed([others.pop()], "other", START)
        return honest(writer, key, data)

    stand_in(MemoryWriter.put_if_absent, another_first)
    held.note_removed([b"ours"], "run", START)
    assert held.removed() == {b"theirs": "other", b"ours": "run"}


@pytest.mark.parametrize("data", [b"{", b"[]", b"null", b"\xff"])
@pytest.mark.parametrize("key", ["noted.json", "open.json", "removed.json", "store.json"])
def test_a_damaged_file_stops_whoever_reads_it(held: TrashState, key: str, data: bytes) -> None:
    held.writer.put(key, data)
    reads = {
        "noted.json": held.noted,
        "open.json": held.open_run,
        "removed.json": held.removed,
        "store.json": lambda: held.claim(memory_store()),
    }
    with pytest.raises(FormatError):
        reads[key]()
    assert held.writer.get(key) == data
