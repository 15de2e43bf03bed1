"""Which sets are read for rules about paths, and how ranges and parts of their index are dealt out to tasks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dredge.gc.index.ranges import RangeFacts, Ranges
from dredge.gc.index.store import IndexPart
from dredge.gc.retention import path_rules
from dredge.gc.retention.kept_sets import Extra, KeptSet
from dredge.gc.retention.path_rules import PathTask, _tasks, collect_paths
from dredge.gc.run import Run
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store

SMALL, LARGE = 1, 15_000_000
"""Records of a range: of large ones a task's memory holds one."""


def ranges(count: int = SMALL) -> Ranges:
    return {"r1": RangeFacts(count, b"a", b"b"), "r2": RangeFacts(count, b"c", b"d")}


def part(name: str) -> PartInfo:
    return PartInfo(name, 1, 1, "")


def test_only_sets_about_paths_that_have_ranges_are_read_and_only_their_files_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[tuple[str, str]] = []

    def reading(_run: Run, _runner: object, where: str, extra: Extra) -> list[PartInfo]:
        read.append((where, extra.kept.name))
        return [part(f"{where}.u64")]

    monkeypatch.setattr(path_rules, "_collect_paths", reading)
    extras = [
        Extra(KeptSet("whole", "", frozenset()), ranges(), [part("of the whole")]),
        Extra(KeptSet("nothing", "", frozenset(), ("x/*",)), {}),
        Extra(KeptSet("some", "", frozenset(), ("x/*",)), ranges()),
    ]
    files = collect_paths(cast("Run", None), cast("Any", None), "where", extras)
    assert read == [("where/paths-02", "some")]
    assert files == [part("where/paths-02.u64")]
    assert [extra.files for extra in extras] == [[part("of the whole")], [], files]


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer("memory://path-tasks/run"), "run")
    forget_memory_store("path-tasks")


def dealt(folder: RunFolder, count: int, tasks_max: int, parts: int) -> list[PathTask]:
    run: Any = SimpleNamespace(folder=folder, num_tasks=lambda _, items: min(items, tasks_max))
    index = [IndexPart(f"p{number}", part("a"), part("s")) for number in range(parts)]
    tasks = _tasks(run, cast("Any", None), "where", 3, ranges(count), index)
    assert [task.name for task in tasks] == [f"3-{number:05d}" for number in range(len(tasks))]
    read = [item for task in tasks if task.ranges for item in task.ranges.read(folder)]
    assert sorted(read) == ["r1", "r2"]
    assert sorted(found.name for task in tasks for found in task.parts) == [found.name for found in index]
    return tasks


@pytest.mark.parametrize(
    ("count", "tasks_max", "parts", "tasks"),
    [
        (SMALL, 9, 0, 2),
        (SMALL, 9, 3, 3),
        (SMALL, 2, 3, 2),
        (SMALL, 1, 3, 1),
        (LARGE, 1, 0, 2),
        (LARGE, 1, 3, 2),
        (LARGE, 9, 3, 3),
    ],
)
def test_each_range_and_part_is_for_one_task_and_no_task_has_more_than_its_memory_holds(
    folder: RunFolder, count: int, tasks_max: int, parts: int, tasks: int
) -> None:
    assert len(dealt(folder, count, tasks_max, parts)) == tasks
