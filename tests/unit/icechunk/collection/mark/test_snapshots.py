"""Live snapshots are all read, with their ancestors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.mark import snapshots
from dredge.icechunk.collection.steps import collect
from tests.support.icechunk import ROOT_ID, Graph, build, contents, local_storage, objects
from tests.support.icechunk_repo import Repo, change_number


def test_ancestors_of_a_young_unreachable_snapshot_are_kept(tmp_path: Path) -> None:  # E03
    linear = [(str(number), str(number - 1), float(number)) for number in range(1, 5)]
    ids = build(local_storage(tmp_path), Graph(tuple(linear), {"main": "4"}), 1)
    time.sleep(1.5)
    repo = Repo(tmp_path, ids)
    session = repo.library.writable_session("main")
    change_number(session, 5)
    young = session.commit("5")
    repo.library.reset_branch("main", ids["2"])
    report = collect(repo.config(unsafe_min_age_seconds=1.0))
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

    snapshot_rows = snapshots.snapshot_rows
    monkeypatch.setattr(snapshots, "snapshot_rows", forgetful)
    before = objects(repo.folder)
    with pytest.raises(FormatError, match="live snapshots were not read"):
        collect(repo.config())
    assert objects(repo.folder) == before
