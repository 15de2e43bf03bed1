"""A range of a folder: what is listed there is live, young, spared, pinned, foreign or a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from dredge.icechunk.collection.list_candidates import listing
from dredge.icechunk.collection.list_candidates.listing import ListConfig, ListResult, ListTask, list_range
from dredge.runs.summary import PartInfo
from tests.support import memory_store as memory
from tests.support.icechunk_tasks import CUTOFF, Task, named

HALF = "G"
"""The first letter of the names whose first bit is set."""
FAR = 1 << 63
FOREIGN = ("README.txt", "o" * 20, named(1)[:-1] + "1", named(2) + "0")


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def config(task: Task, **changes: Any) -> ListConfig:
    nothing = task.ids("mark/none.ids", ())
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "candidate_rows": 100,
        "live": dict.fromkeys(("snapshots", "transactions", "manifests"), nothing),
        "pruned": nothing,
        "chunk_bits": 0,
        "chunk_shards": [[]],
        "kept_kinds": [],
        "pinned": (),
        "new_manifests": None,
    }
    return ListConfig(**(given | changes))


def listed(task: Task, given: ListConfig, kind: str = "chunks", low: str = "", high: str = "") -> ListResult:
    number = 7 if low else 6
    return list_range.body(task.run, given, ListTask(kind=kind, number=number, low=low, high=high))


def figures(**some: int) -> dict[str, int]:
    return dict.fromkeys(listing.FIGURES, 0) | some


def of(result: ListResult) -> dict[str, int]:
    return dict.fromkeys(listing.FIGURES, 0) | result.counts


def names(parts: Sequence[PartInfo]) -> list[str]:
    return [part.name.rpartition("/")[2] for part in parts]


def fill(task: Task, folder: str) -> None:
    for number in range(1, 6):
        time = CUTOFF if number in (4, 5) else CUTOFF - timedelta(microseconds=1)
        task.put(f"{folder}/{named(number)}", b"x" * 10**number, time)
    for name in FOREIGN:
        task.put(f"{folder}/{name}", b"x" * 3)


@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_only_what_is_old_and_an_id_that_nothing_live_names_is_a_candidate(
    task: Task, stand_in: Any, rows: int
) -> None:
    stand_in(memory.rows_of_a_page, lambda _: rows)
    fill(task, "chunks")
    shards = [[task.ids("mark/a.ids", [1]), task.ids("mark/b.ids", [1, 5, 8])]]
    found = listed(task, config(task, chunk_shards=shards))
    assert task.addresses(found.parts) == [f"chunks/{named(2)}", f"chunks/{named(3)}"]
    assert of(found) == figures(
        listed_objects=9,
        listed_bytes=111_122,
        foreign=4,
        candidates_objects=2,
        candidates_bytes=1100,
        young_objects=1,
        young_bytes=10_000,
        absent=1,
    )
    assert found.absent == [f"{8:016x}"]
    assert found.foreign == sorted(f"chunks/{name}" for name in FOREIGN)[:3]
    assert found.unproved == {}


def test_name_that_is_no_id_is_never_taken_for_a_live_one(task: Task) -> None:
    task.put("chunks/README.txt")
    found = listed(task, config(task, chunk_shards=[[task.ids("mark/a.ids", [0])]]))
    assert (found.counts["foreign"], found.absent) == (1, [f"{0:016x}"])


def test_range_asks_the_live_ids_of_its_own_shards_only_and_misses_none_of_others(task: Task) -> None:
    for number in (1, 2, FAR, FAR + 1):
        task.put(f"chunks/{named(number)}")
    task.put(f"chunks/{HALF}")
    shards = [
        [task.ids("mark/a.ids", [1])],
        [task.ids("mark/b.ids", [FAR]), task.ids("mark/c.ids", [FAR + 9])],
    ]
    given = config(task, chunk_bits=1, chunk_shards=shards)
    low, high = listed(task, given, high=HALF), listed(task, given, low=HALF)
    assert task.addresses(low.parts) == [f"chunks/{named(2)}"]
    assert task.addresses(high.parts) == [f"chunks/{named(FAR + 1)}"]
    assert (low.absent, high.absent) == ([], [f"{FAR + 9:016x}"])
    assert (low.counts["foreign"], high.counts["foreign"]) == (1, 0)
    assert names(low.parts) == ["found-chunks-0006-00000.parquet"]


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_files_are_compared_with_the_live_ids_of_their_kind(task: Task, kind: str) -> None:
    fill(task, kind)
    live = dict.fromkeys(("snapshots", "transactions", "manifests"), task.ids("mark/other.ids", [2, 3]))
    found = listed(task, config(task, live=live | {kind: task.ids("mark/own.ids", [1, 5, 6])}), kind)
    assert task.addresses(found.parts) == [f"{kind}/{named(2)}", f"{kind}/{named(3)}"]
    assert (found.counts["absent"], found.absent) == (1, [f"{6:016x}"])


def test_log_that_is_not_there_is_missed_only_when_the_repo_info_alone_names_it(task: Task) -> None:
    fill(task, "transactions")
    live = {"transactions": task.ids("mark/logs.ids", [1, 5, 6, 7])}
    found = listed(task, config(task, live=live, pruned=task.ids("mark/pruned.ids", [5, 7])), "transactions")
    assert (found.counts["absent"], found.absent) == (1, [f"{7:016x}"])
    whole = listed(
        task, config(task, live={"transactions": task.ids("mark/there.ids", [1, 5])}), "transactions"
    )
    assert (whole.counts["absent"], whole.absent) == (0, [])


def test_object_with_the_name_of_the_folder_is_a_foreign_one(task: Task) -> None:
    task.put("chunks/")
    found = listed(task, config(task), high=HALF)
    assert (found.counts["foreign"], found.foreign) == (1, ["chunks/"])
