"""What is listed, with which settings, and what becomes of the results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.list_candidates import listing, unproved
from dredge.icechunk.collection.list_candidates.listing import FIGURES, ListResult, ListTask
from dredge.icechunk.collection.list_candidates.step import (
    _config,
    _record,
    _refuse_absent,
    _tasks,
    _warn_of_foreign,
)
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect, mark, plan_collection
from dredge.inventory.manifest import Inventory
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.storage import open_reader
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()
KINDS = ["snapshots", "transactions", "manifests", "chunks"]


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan()


@pytest.fixture
def record(run: Run) -> StepRecord:
    return StepRecord({}, StepTry(run.folder.writer, "list_candidates", 1))


def kinds(run: Run, found: MarkOutput) -> list[str]:
    return [task.kind for task in _tasks(run, found)]


def test_every_folder_is_listed_but_chunks_where_manifests_or_an_inventory_tell_them(v1: Repo) -> None:
    collect(v1.config())
    run = Run.open(plan_collection(v1.config(mode="auto")).run_uri)
    found = MarkOutput.of(mark(run, HERE))
    assert run.base is not None
    assert kinds(run, found) == ["snapshots", "transactions", "manifests"]
    config = _config(run, found)
    assert (config.chunk_bits, config.chunk_shards, config.new_manifests) == (0, [], found.new_manifests)


def test_clean_run_lists_chunks_unless_it_has_an_inventory(v1: Repo) -> None:
    run = v1.plan(tuning=Tuning(ids_per_shard=1))
    found = MarkOutput.of(mark(run, HERE))
    assert kinds(run, found) == KINDS
    config = _config(run, found)
    assert config.chunk_bits > 0
    assert (config.chunk_bits, config.chunk_shards) == (found.chunk_bits, found.chunk_shards)
    assert config.new_manifests is None
    assert config.live == {kind: found.live(kind) for kind in KINDS[:3]}
    assert config.cutoff == run.plan.cutoff
    run.plan = replace(run.plan, inventory=Inventory(uri="x", created_at=None, digest=""))
    assert kinds(run, found) == KINDS[:3]


def test_folders_of_a_remote_store_are_split_by_how_much_is_expected_there(run: Run) -> None:
    found = MarkOutput.of(mark(run, HERE))
    counts = found.counts["live_snapshots"], found.counts["live_manifests"], found.chunks
    assert len(set(counts)) == 3
    run.reader = open_reader("memory://step-parts/repo")
    for limit in range(min(counts) - 1, max(counts) + 1):
        run.plan = replace(
            run.plan,
            config=replace(run.plan.config, tuning=replace(run.plan.config.tuning, keys_per_task=limit)),
        )
        tasks = list(_tasks(run, found))
        split = {kind: len([task for task in tasks if task.kind == kind]) for kind in KINDS}
        nodes, manifests, chunks = (32 if count > limit else 1 for count in counts)
        assert split == {"snapshots": nodes, "transactions": nodes, "manifests": manifests, "chunks": chunks}
        for kind in KINDS:
            own = [task for task in tasks if task.kind == kind]
            assert [task.number for task in own] == [*range(len(own))]
            assert (own[0].low, own[-1].high) == ("", "")
            assert [task.high for task in own[:-1]] == [task.low for task in own[1:]]


def result(**found: Any) -> ListResult:
    given: dict[str, Any] = {"parts": [], "counts": {}, "foreign": [], "absent": [], "unproved": {}}
    return ListResult(**(given | found))


def test_figures_and_parts_of_all_ranges_are_put_together_by_kind(record: StepRecord) -> None:
    tasks = [ListTask(kind=kind, number=0, low="", high="") for kind in ("chunks", "chunks", "manifests")]
    one, two = PartInfo("a", 1, 1, ""), PartInfo("b", 1, 1, "")
    results = [
        result(parts=[one], counts={"listed_objects": 3, "absent": 1}, absent=["01"], foreign=["chunks/x"]),
        result(parts=[two], counts={"listed_objects": 4, "foreign": 2}, absent=["02"], foreign=["chunks/y"]),
        result(counts={"listed_objects": 5, "absent": 0}),
    ]
    _record(record, tasks, results)
    assert record.parts == [one, two]
    assert record.counts.keys() == {f"{kind}_{figure}" for kind in KINDS for figure in FIGURES}
    expected = {
        "chunks_listed_objects": 7,
        "chunks_absent": 1,
        "chunks_foreign": 2,
        "manifests_listed_objects": 5,
    }
    assert {name: count for name, count in record.counts.items() if count} == expected
    assert record.details["absent"] == {"chunks": ["01", "02"]}
    _warn_of_foreign(record, tasks, results)
    assert record.warnings == ["2 names in chunks are not ids and are left alone: chunks/x, chunks/y"]


@pytest.mark.parametrize("kind", KINDS)
def test_live_snapshots_and_manifests_must_all_be_listed(run: Run, record: StepRecord, kind: str) -> None:
    record.counts.update({f"{other}_absent": int(other == kind) for other in KINDS})
    if kind in ("snapshots", "manifests"):
        with pytest.raises(FormatError, match=f"{kind}/"):
            _refuse_absent(run, record)
    else:
        _refuse_absent(run, record)


def test_every_kind_has_every_figure_also_where_nothing_was_found(run: Run, record: StepRecord) -> None:
    _record(record, [], [])
    objects_and_bytes = ("listed", "candidates", "young", "spared", "pinned")
    names = {f"{name}_{unit}" for name in objects_and_bytes for unit in ("objects", "bytes")}
    assert record.counts == {f"{kind}_{name}": 0 for kind in KINDS for name in names | {"foreign", "absent"}}
    assert listing.ABSENT_MAX == unproved.ABSENT_MAX == 1000
