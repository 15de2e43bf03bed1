"""What ranges name is put where their roles want it, whatever the memory it may take."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pytest

from dredge.gc.list_committed.collect import Merge, MergeConfig, MergeTask, merge_shards
from dredge.gc.list_committed.tables import COUNTS, LIVE
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Stores, WorkerRun
from dredge.sets.hashes import Counted, Hashes, read_hashes, write_counted, write_hashes
from tests.support.memory_store import forget_memory_store

TOP = 1 << 63
"""Hashes from here on lie in the second of two shards."""


def hashes(*values: int) -> Hashes:
    return np.array(values, np.uint64)


@pytest.fixture
def run() -> Iterator[WorkerRun]:
    name = f"ranges-{uuid.uuid4().hex[:8]}"
    root = f"memory://{name}"
    stores = Stores(
        run_uri=f"{root}/run",
        run_id="run",
        attempt=None,
        store_uri=f"{root}/lake",
        state_uri=f"{root}/state",
        progress="progress",
    )
    yield WorkerRun.open(stores, "t")
    forget_memory_store(name)


def merged(
    run: WorkerRun, config: MergeConfig, merges: list[Merge]
) -> tuple[dict[str, list[list[int]]], list[PartInfo]]:
    result = merge_shards.body(run, config, MergeTask(merges=merges))
    sets = {
        kind: [read_hashes(run.folder, part).tolist() for part in parts]
        for kind, parts in result.sets.items()
    }
    return sets, result.counted


def config(is_difference: bool = False, keep_counts: bool = False, count_here: bool = False) -> MergeConfig:
    return MergeConfig(
        where="step/a", bits=1, is_difference=is_difference, keep_counts=keep_counts, count_here=count_here
    )


@pytest.mark.parametrize("is_difference", [False, True])
def test_what_is_counted_or_staged_is_live_and_a_difference_by_itself_is_not(
    is_difference: bool, run: WorkerRun
) -> None:
    counts = [
        Counted(hashes(1, 2, 3), np.array([1, 1, -1], np.int32)),
        Counted(hashes(2, 3, 4), np.array([-1, -1, 2], np.int32)),
    ]
    parts = [write_counted(run.folder, f"{number}.counts", found) for number, found in enumerate(counts)]
    staged = write_hashes(run.folder, "staged.u64", hashes(4, 9, TOP + 1))
    sets, counted = merged(
        run, config(is_difference=is_difference), [Merge(kind=COUNTS, shard=0, parts=parts, whole=[staged])]
    )
    assert sets == {LIVE: [[4, 9] if is_difference else [1, 4, 9]]}
    assert counted == []
    sets, _ = merged(run, config(), [Merge(kind=COUNTS, shard=1, parts=[], whole=[staged])])
    assert sets == {LIVE: [[TOP + 1]]}
