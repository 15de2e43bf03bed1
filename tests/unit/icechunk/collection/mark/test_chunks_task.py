"""A task puts the live chunks of a part of the index into sets, a set for each shard that has any."""

from __future__ import annotations

import json

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import ManifestIndex
from dredge.icechunk.collection.mark import chunks
from dredge.icechunk.collection.mark.chunks import (
    ChunksConfig,
    ChunksResult,
    ChunksTask,
    _bits,
    _check_complete,
    _tasks,
    shard_chunks,
)
from dredge.icechunk.collection.steps import mark
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk_repo import Repo
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


@pytest.mark.parametrize(
    ("refs", "bits"), [(0, 0), (4, 0), (5, 1), (8, 1), (9, 2), (4 << 10, 10), (1 << 40, 10)]
)
def test_chunks_are_split_until_a_shard_has_few_and_never_too_often(v1: Repo, refs: int, bits: int) -> None:
    run = v1.plan(tuning=Tuning(ids_per_shard=4))
    assert _bits(run, {"A": refs // 2, "B": refs - refs // 2}) == bits


def test_parts_of_the_index_without_live_manifests_are_not_read() -> None:
    parts = {name: PartInfo(name, 1, 1, "") for name in ("c", "b", "a")}
    index = ManifestIndex(manifest_parts=parts, manifests_of={"c": ["A", "B"], "b": ["X"], "a": ["C"]})
    assert _tasks(index, {"A": 1, "C": 1}) == [
        ChunksTask(number=0, index_part=parts["a"]),
        ChunksTask(number=1, index_part=parts["c"]),
    ]


def test_live_manifests_must_all_have_been_taken(v1: Repo) -> None:
    run = v1.plan()
    results = [ChunksResult(sets=[], manifests=[name], damaged=[]) for name in ("A", "B")]
    _check_complete(run, results, {"A": 1, "B": 2})
    with pytest.raises(FormatError):
        _check_complete(run, results, {"A": 1, "B": 2, "C": 3})


def test_index_whose_parts_go_bad_again_and_again_stops_the_mark(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise FormatError("not as it was written")

    monkeypatch.setattr(chunks, "read_manifest_rows", damaged)
    with pytest.raises(FormatError):
        mark(v1.plan(), LocalRunner())
