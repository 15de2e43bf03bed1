"""A task deletes what it was given but for what must stay, in groups, while the gate is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dredge.icechunk.collection.bulk_delete import deleting
from dredge.icechunk.collection.bulk_delete.deleting import (
    ALIVE_CODE,
    NAMED_BY_KEPT,
    DeleteConfig,
    DeleteResult,
    DeleteTask,
    delete_parts,
)
from dredge.icechunk.collection.list_candidates.candidates import write_candidates
from dredge.runs import ledger
from dredge.runs.gate import GateConfig, write_look
from dredge.runs.lease import Lease
from dredge.runs.summary import PartInfo
from dredge.storage import LISTING_SCHEMA, DeleteOutcome, open_deleter, store_clock
from dredge.undo.pins import PINNED
from tests.support.icechunk_tasks import OLD, Task, named

WATCH = "bulk_delete/_watch/001.json"


@pytest.fixture
def task() -> Task:
    return Task("bulk_delete")


def candidates(task: Task, kind: str, names: Sequence[str]) -> PartInfo:
    """Put objects into the repository and write them as candidates, as they were listed."""
    folder = {"chunks": "chunks/", "overwritten": "overwritten/"}[kind]
    listed = [(task.put(folder + name), 1, OLD, None) for name in names]
    columns = [list(column) for column in zip(*listed, strict=True)]
    table = pa.table(columns, schema=LISTING_SCHEMA)
    (part,) = write_candidates(task.folder, kind, len(task.keys()), [table], 100)
    return part


def config(task: Task, **changes: Any) -> DeleteConfig:
    lease = Lease(task.state, timedelta(hours=1), lambda: datetime.now(UTC)).acquire("run r")
    gate = GateConfig(lease=lease, watch=WATCH, trusted_seconds=0, silence_seconds_max=60)
    given: dict[str, Any] = {
        "delete_keys": 10,
        "pinned": (),
        "undo": "off",
        "alive": {"chunks": task.ids("none.ids", ())},
    }
    write_look(task.folder, WATCH, True, "", store_clock(task.state, ""))
    return DeleteConfig(gate=gate, **(given | changes))


def codes(task: Task, part: PartInfo) -> dict[str, str | None]:
    """What the ledger says of each candidate: why it was kept, None for what was deleted."""
    rows = ledger.best(ledger.read_raw(task.folder, ledger.stem_of(part))).to_pylist()
    assert all((row["outcome"] == ledger.KEPT) == (row["code"] is not None) for row in rows)
    return {row["address"]: row["code"] for row in rows}


def test_what_came_to_life_is_pinned_or_named_by_what_stays_is_kept_and_the_rest_goes(task: Task) -> None:
    part = candidates(task, "chunks", [named(number) for number in range(1, 7)])
    given = config(
        task,
        alive={"chunks": task.ids("alive.ids", [1, 4])},
        pinned=(task.pin(f"chunks/{named(2)}"), task.pin(f"chunks/{named(4)}", f"chunks/{named(5)}")),
        named=(task.pin(f"chunks/{named(3)}"), task.pin(f"chunks/{named(5)}")),
    )
    result = delete_parts.body(task.run, given, DeleteTask(kind="chunks", parts=[part]))
    assert result == DeleteResult(stopped=False, failed=0, kept=5)
    assert task.keys() == {f"chunks/{named(number)}" for number in range(1, 6)}
    why = [ALIVE_CODE, PINNED, NAMED_BY_KEPT, ALIVE_CODE, PINNED, None]
    assert codes(task, part) == {f"chunks/{named(number)}": code for number, code in enumerate(why, 1)}


def test_old_repo_infos_stay_when_the_log_or_a_virtual_chunk_needs_them_now(task: Task) -> None:
    names = [f"repo.1.{named(number)}" for number in range(1, 4)]
    part = candidates(task, "overwritten", names)
    given = DeleteTask(kind="overwritten", parts=[part], needed=[names[1]])
    alive = {"overwritten": task.ids("alive.ids", [3])}
    result = delete_parts.body(task.run, config(task, alive=alive), given)
    assert result == DeleteResult(stopped=False, failed=0, kept=2)
    assert task.keys() == {f"overwritten/{name}" for name in names[1:]}


class Deleter:
    """Deletes, notes the keys of each request, and lets something happen after it."""

    def __init__(self, uri: str, happens: Callable[[], object] = lambda: None) -> None:
        self.inner, self.happens = open_deleter(uri), happens
        self.sent: list[list[str]] = []

    def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
        self.sent.append(list(keys))
        found = self.inner.delete(keys)
        self.happens()
        return found


def test_task_stops_when_the_gate_closes_and_leaves_what_comes_after_alone(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [candidates(task, "chunks", [named(3 * first + each) for each in range(3)]) for first in range(2)]
    given = config(task, delete_keys=2, alive={"chunks": task.ids("alive.ids", [0])})
    deleter = Deleter(task.uri, lambda: write_look(task.folder, WATCH, False, "in use again", None))
    monkeypatch.setattr(deleting, "open_deleter", lambda _: deleter)
    result = delete_parts.body(task.run, given, DeleteTask(kind="chunks", parts=parts))
    assert deleter.sent == [[f"chunks/{named(1)}", f"chunks/{named(2)}"]]
    assert result == DeleteResult(stopped=True, failed=0, kept=1)
    again = delete_parts.body(task.run, given, DeleteTask(kind="chunks", parts=parts))
    assert again == DeleteResult(stopped=True, failed=0, kept=1)
    assert len(deleter.sent) == 1


@pytest.mark.parametrize(
    ("undo", "delete_keys", "sizes"),
    [("off", 4, [4, 1]), ("off", 9, [5]), ("quarantine", 9, [2, 2, 1]), ("quarantine", 1, [1] * 5)],
)
def test_groups_are_as_long_as_asked_for_but_short_where_each_is_copied_first(
    task: Task, monkeypatch: pytest.MonkeyPatch, undo: str, delete_keys: int, sizes: list[int]
) -> None:
    deleter = Deleter(task.uri)
    monkeypatch.setattr(deleting, "GROUP_KEYS", 2)
    monkeypatch.setattr(deleting, "protection", lambda *_: None)
    monkeypatch.setattr(deleting, "open_deleter", lambda _: deleter)
    part = candidates(task, "chunks", [named(number) for number in range(5)])
    given = config(task, undo=undo, delete_keys=delete_keys)
    result = delete_parts.body(task.run, given, DeleteTask(kind="chunks", parts=[part]))
    assert [len(keys) for keys in deleter.sent] == sizes
    assert result == DeleteResult(stopped=False, failed=0, kept=0)
    assert task.keys() == set()
