"""A task puts the live chunks of a part of the index into sets, a set for each shard that has any."""

from __future__ import annotations

import json

import pytest

from dredge.icechunk.collection import sets
from dredge.icechunk.collection.mark.chunks import ChunksConfig, ChunksResult, ChunksTask, shard_chunks
from dredge.runs.summary import PartInfo
from tests.support.icechunk_tasks import Task, raw

FAR = 1 << 63


@pytest.fixture
def task() -> Task:
    return Task("mark")


def shard(task: Task, part: PartInfo, live: list[str], bits: int) -> ChunksResult:
    manifests = task.folder.write_bytes("mark/manifests.json", json.dumps(live).encode(), len(live))
    config = ChunksConfig(bits=bits, manifests=manifests)
    return shard_chunks.body(task.run, config, ChunksTask(number=4, index_part=part))


@pytest.mark.parametrize("bits", [0, 1, 2])
def test_chunks_of_live_manifests_are_in_the_set_of_their_shard_and_no_others(task: Task, bits: int) -> None:
    part = task.indexed(
        "part",
        {"A": [raw(1), raw(FAR - 1)], "B": [raw(1), raw(FAR), raw(FAR + 1)], "C": [raw(7)], "D": []},
    )
    found = shard(task, part, ["A", "B", "D", "X"], bits)
    read = {part.name[-8:-4]: sets.read_ids(task.folder, part).tolist() for part in found.sets}
    numbers = [1, FAR - 1, FAR, FAR + 1]
    by_shard = {
        f"{shard:04d}": [number for number in numbers if number >> (64 - bits) == shard]
        for shard in range(1 << bits)
    }
    assert read == {shard: some for shard, some in by_shard.items() if some}
    assert (found.manifests, found.damaged) == (["A", "B", "D"], [])


def test_part_of_the_index_that_went_bad_is_told_and_nothing_of_it_is_taken(task: Task) -> None:
    part = task.indexed("part", {"A": [raw(1)]})
    task.state.put(part.name, b"x" * part.size_bytes)
    assert shard(task, part, ["A"], 0) == ChunksResult(sets=[], manifests=[], damaged=[part.name])
