"""Live snapshots are all read, with their ancestors."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import ManifestIndex, SnapshotRow, snapshot_rows, write_snapshot_rows
from dredge.icechunk.collection.mark import snapshots
from dredge.icechunk.collection.mark.snapshots import (
    _refuse_others,
    add_snapshots,
    index_snapshots,
    with_ancestors,
)
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect
from dredge.runs.clock import utc_now
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.storage import open_reader
from tests.support.icechunk import ROOT_ID, Graph, build, contents, local_storage, objects
from tests.support.icechunk_repo import Repo, change_number
from tests.support.icechunk_tasks import Task

HERE = LocalRunner()


def test_ancestors_of_a_young_unreachable_snapshot_are_kept(tmp_path: Path) -> None:  # E03
    linear = [(str(number), str(number - 1), float(number)) for number in range(1, 5)]
    ids = build(local_storage(tmp_path), Graph(tuple(linear), {"main": "4"}), 1)
    an_hour_ago = utc_now().timestamp() - 3600
    for path in tmp_path.rglob("*"):
        if path.is_file():
            os.utime(path, (an_hour_ago, an_hour_ago))
    repo = Repo(tmp_path, ids)
    session = repo.library.writable_session("main")
    change_number(session, 5)
    young = session.commit("5")
    repo.library.reset_branch("main", ids["2"])
    report = collect(repo.config(unsafe_min_age_seconds=1800))
    assert report["deleted"]["objects"] == 0
    repo.library.create_branch("back", young)
    assert contents(repo.library, branch="back")[0] == 5
    assert [info.id for info in repo.library.ancestry(branch="back")][1:] == [
        ids["4"],
        ids["3"],
        ids["2"],
        ids["1"],
        ROOT_ID,
    ]


def test_live_snapshot_that_no_task_read_stops_the_mark(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*arguments: Any) -> Any:
        return list(snapshot_rows(*arguments))[1:]

    monkeypatch.setattr(snapshots, "snapshot_rows", forgetful)
    before = objects(repo.folder)
    with pytest.raises(FormatError):
        collect(repo.config())
    assert objects(repo.folder) == before


def path_of(repo: Repo, node: str) -> list[str]:
    return [info.id for info in repo.library.ancestry(snapshot_id=repo.ids[node])]


def test_ancestors_of_what_is_not_in_the_history_are_live_down_to_the_first(v1: Repo) -> None:
    reader, path = open_reader(v1.uri), path_of(v1, "7")
    assert len(path) > 2
    assert with_ancestors(reader, [path[0]], ()) == {*path}
    assert with_ancestors(reader, [path[0], path[1]], ()) == {*path}
    assert with_ancestors(reader, [path[0], v1.ids["14"]], [v1.ids["14"]]) == {*path, v1.ids["14"]}
    assert with_ancestors(reader, [path[0]], [path[0]]) == {path[0]}


def test_path_that_comes_back_to_itself_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task, parents = Task("mark"), {"snapshots/A": "B", "snapshots/B": "A"}
    asked: list[str] = []
    for key in parents:
        task.put(key)

    def parsed(_: bytes, key: str) -> SimpleNamespace:
        asked.append(key)
        assert len(asked) < 10
        return SimpleNamespace(parent_id=parents[key])

    monkeypatch.setattr(snapshots, "parse_snapshot", parsed)
    assert with_ancestors(open_reader(task.uri), ["A"], ()) == {"A", "B"}
    assert asked == ["snapshots/A", "snapshots/B"]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    asked: list[list[str]] = []
    real = snapshot_rows

    def noted(reader: Any, nodes: list[str], *rest: Any) -> Any:
        asked.append(nodes)
        return real(reader, nodes, *rest)

    monkeypatch.setattr(snapshots, "snapshot_rows", noted)
    return asked


def indexed(
    run: Run, live: set[str], replaced: Collection[str] = (), contradicted: Collection[str] = ()
) -> list[SnapshotRow]:
    with run.folder.writing(StepTry.claim(run.folder.writer, "mark")):
        index = ManifestIndex.load(run.state)
        rows, parts = index_snapshots(run, HERE, index, live, replaced, contradicted)
        add_snapshots(run, index, parts)
        return rows


def test_snapshot_that_the_index_has_is_not_read_again_unless_its_file_was_replaced(
    v1: Repo, read: list[list[str]]
) -> None:
    run, live = v1.plan(tuning=Tuning(snapshots_per_task=2)), {v1.ids[node] for node in ("8", "9", "14")}
    more = {*live, v1.ids["10"]}
    rows = indexed(run, live)
    assert [row.snapshot for row in rows] == sorted(live)
    assert sorted(map(len, read)) == [1, 2]
    assert {node for nodes in read for node in nodes} == live
    for row in rows:
        said = {info.id: info.num_chunk_refs for info in v1.library.list_manifest_files(row.snapshot)}
        assert dict(zip(row.manifests, row.refs, strict=True)) == said
    read.clear()
    assert [row.snapshot for row in indexed(run, more)] == sorted(more)
    assert read == [[v1.ids["10"]]]
    read.clear()
    assert len(indexed(run, more, [v1.ids["9"], v1.ids["1"]])) == 4
    assert read == [[v1.ids["9"]]]


def test_only_a_snapshot_of_which_two_reads_are_known_may_name_less_than_before(v1: Repo) -> None:
    run, one, other = v1.plan(), v1.ids["8"], v1.ids["9"]
    more = [
        SnapshotRow(row.snapshot, (*row.manifests, "M"), (*row.refs, 1))
        for row in snapshot_rows(run.reader, [one, other])
    ]
    ManifestIndex.load(run.state).add(run.state, "x", [write_snapshot_rows(run.state, "x", more)], [])
    with pytest.raises(FormatError, match=one):
        indexed(run, {one}, [one, other])  # the other one is live no more, and not read
    (row,) = indexed(run, {one}, [one, other], [one, other])
    assert "M" in row.manifests


def test_snapshot_that_names_other_manifests_than_before_is_refused(v1: Repo) -> None:
    run, nodes = v1.plan(), {node: SnapshotRow(node, ("M",), (1,)) for node in ("A", "B")}
    _refuse_others(run, nodes, {})
    _refuse_others(run, nodes, nodes | {"C": SnapshotRow("C", ("N",), (1,))})
    for other in (SnapshotRow("B", ("N",), (1,)), SnapshotRow("B", ("M",), (2,))):
        with pytest.raises(FormatError, match="snapshots/B"):
            _refuse_others(run, nodes, nodes | {"B": other})
