"""How many live manifests name each chunk."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import ManifestIndex, SnapshotRow, write_manifest_rows
from dredge.icechunk.collection.mark import counts as counts_module
from dredge.icechunk.collection.mark.counts import (
    Change,
    UniteConfig,
    UniteTask,
    count_change,
    count_live,
    unite_layers,
)
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import Base
from dredge.icechunk.format.manifests import NATIVE, NamedChunks, parse_manifest
from dredge.icechunk.ids import hashes_of
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.sets.hashes import Counted, read_counted, write_counted
from dredge.sets.live import CountedSet
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_tasks import Task
from tests.unit.icechunk.collection.state.test_base import STATE

HERE = LocalRunner()


@pytest.fixture
def task() -> Task:
    return Task("mark")


def counts(task: Task, parts: list[PartInfo]) -> dict[str, dict[int, int]]:
    folder, found = RunFolder(task.state, "r"), {}
    for part in parts:
        read = read_counted(folder, part)
        stem = part.name.removesuffix(".counts").rpartition("/")[2]
        found[stem] = dict(zip(read.hashes.tolist(), read.counts.tolist(), strict=True))
    return found


def layer(task: Task, name: str, *shards: dict[int, int]) -> list[PartInfo]:
    folder = RunFolder(task.state, "r")
    pairs = [(np.array([*shard], np.uint64), np.array([*shard.values()], np.int32)) for shard in shards]
    return [
        write_counted(folder, f"counted/{name}-{number:04d}.counts", Counted(*pair))
        for number, pair in enumerate(pairs)
        if len(pair[0])
    ]


def test_chunk_that_was_taken_away_more_often_than_added_stops_the_run(task: Task) -> None:
    counted = CountedSet.of(layer(task, "a", {1: 2, 2: 5}), 0).then(layer(task, "b", {1: -3, 2: 1}))
    with pytest.raises(FormatError):
        unite_layers.body(task.run, UniteConfig(counted=counted, label="x"), UniteTask(shards=[0]))


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan()


def test_clean_run_whose_index_lost_a_live_manifest_stops(run: Run) -> None:
    part = write_manifest_rows(run.state, "x", [("A", NamedChunks(np.array([1], np.uint64)))])
    index = ManifestIndex(manifest_parts={part.name: part}, manifests_of={part.name: ["A", "B"]})
    with run.folder.writing(StepTry.claim(run.folder.writer, "mark")):
        assert len(count_live(run, HERE, index, {"A": 1}, 0).layers) == 1
        with pytest.raises(FormatError):
            count_live(run, HERE, index, {"A": 1, "B": 1}, 0)


class Earlier:
    def __init__(self, repo: Repo, **tuning: int) -> None:
        self.run = repo.plan(tuning=Tuning(**tuning))
        (info,) = repo.library.list_manifest_files(repo.ids["7"])
        self.manifest, self.refs = info.id, {"B": 1, info.id: info.num_chunk_refs}
        data = (repo.folder / "manifests" / info.id).read_bytes()
        self.md5 = hashlib.md5(data).hexdigest()
        arrays = parse_manifest(data, "").arrays
        self.chunks = [int(one) for array in arrays for one in hashes_of(array.ids[array.kind == NATIVE])]
        folder = RunFolder(self.run.state, "r")
        counts = Counted(np.array([1, 2, 3], np.uint64), np.array([1, 2, 1], np.int32))
        part = write_counted(folder, "counted/before-0000.counts", counts)
        self.base = Base(replace(STATE, counted=CountedSet.of([part], 0)), folder)
        self.base.__dict__["rows"] = {"S": SnapshotRow("S", ("A", "B"), (2, 2))}
        self.index = ManifestIndex()

    def indexed(self, name: str, **manifests: list[int]) -> PartInfo:
        rows = [(manifest, NamedChunks(np.array(ids, np.uint64))) for manifest, ids in manifests.items()]
        part = write_manifest_rows(self.run.state, name, rows)
        self.index.add(self.run.state, name, [], [(part, [*manifests])])
        return part

    def change(self) -> Change:
        with self.run.folder.writing(StepTry.claim(self.run.folder.writer, "mark")):
            return count_change(self.run, HERE, self.index, self.base, self.refs)

    def counts(self, change: Change, *more: int) -> list[int]:
        wanted = np.array([1, 2, 3, *more], np.uint64)
        (found,) = change.counted.counts(RunFolder(self.run.state, "r"), [wanted])
        return [int(one) for one in found]


def test_counts_follow_what_became_of_manifests_since_the_earlier_run(v1: Repo) -> None:
    earlier = Earlier(v1)
    earlier.indexed("known", A=[1, 2], B=[2, 3])
    change = earlier.change()
    assert earlier.counts(change, *earlier.chunks) == [0, 1, 1, *[1] * len(earlier.chunks)]
    assert (set(change.dropped), change.not_taken_away) == ({"A"}, 0)
    assert change.read == {earlier.manifest: earlier.md5}
    assert change.new == {
        earlier.manifest: earlier.index.part_names.difference({"index/parts/known.ids"}).pop()
    }


def test_new_manifest_that_cannot_be_counted_stops_the_run(v1: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "index_manifests", lambda *_, **__: {})
    with pytest.raises(FormatError):
        Earlier(v1).change()
