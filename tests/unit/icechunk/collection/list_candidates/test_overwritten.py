"""Old copies of the repo info."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.icechunk.collection.list_candidates import step
from dredge.icechunk.collection.list_candidates.step import needed_copies
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import bulk_delete, check_limits, collect, release_lease
from dredge.icechunk.format.repo_info import parse_repo_info, written_at
from dredge.icechunk.repository import read_repo_info
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support.icechunk import local_storage, quiet
from tests.support.icechunk_repo import Repo


def test_old_copies_of_the_repo_info_go_and_the_operations_log_stays_whole(tmp_path: Path) -> None:
    icechunk = quiet()
    settings = icechunk.RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 5
    library = icechunk.Repository.create(local_storage(tmp_path), config=settings, spec_version=2)
    for number in range(30):
        library.writable_session("main").commit(str(number), allow_empty=True)
    (tmp_path / "overwritten" / "notes.txt").write_bytes(b"")
    before = {path.name for path in (tmp_path / "overwritten").iterdir()}
    report = collect(Repo(tmp_path).config())
    assert "overwritten" not in report["kinds"]
    young = collect(Repo(tmp_path).config(overwritten_min_age_hours=1))
    assert young["kinds"]["overwritten"]["candidates_objects"] == 0
    report = collect(Repo(tmp_path).config(overwritten_min_age_hours=0))
    left = {path.name for path in (tmp_path / "overwritten").iterdir()}
    info = parse_repo_info((tmp_path / "repo").read_bytes())
    assert report["kinds"]["overwritten"]["deleted_objects"] == len(before - left) > 15
    assert {update.backup for update in info.updates[1:]} <= left
    assert "notes.txt" in left
    reopened = icechunk.Repository.open(local_storage(tmp_path), config=settings)
    assert len(list(reopened.ops_log())) == 31
    assert len(list(reopened.ancestry(branch="main"))) == 31
    # The chain moves with every change, so the log shortens then; it must not fail.
    reopened.writable_session("main").commit("more", allow_empty=True)
    assert 10 <= len(list(icechunk.Repository.open(local_storage(tmp_path), config=settings).ops_log())) < 32
    assert collect(Repo(tmp_path).config(overwritten_min_age_hours=0))["outcome"] == "success"


def old_repo_infos(folder: Path, count: int) -> Any:
    icechunk = quiet()
    settings = icechunk.RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 5
    library = icechunk.Repository.create(local_storage(folder), config=settings, spec_version=2)
    for number in range(count):
        library.writable_session("main").commit(str(number), allow_empty=True)
    return library


def age(folder: Path, hours: float) -> None:
    for path in list((folder / "overwritten").iterdir()):
        made = written_at(path.name)
        assert made is not None
        then = time.time() - hours * 3600
        os.utime(path, (then, then))


def test_old_repo_infos_have_an_age_limit_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_repo_infos(tmp_path, 30)
    age(tmp_path, 30)
    monkeypatch.setattr(step, "written_at", lambda name: datetime.now(UTC) - timedelta(hours=30))

    def candidates(**ages: float) -> int:
        run = Repo(tmp_path).listed(**ages)
        release_lease(run)
        return output_of(run).counts["overwritten_candidates_objects"]

    day, older, never = {"unsafe_min_age_seconds": 86_400}, 31, 24 * 365
    assert candidates(**day, overwritten_min_age_hours=24) > 15
    assert candidates(**day, overwritten_min_age_hours=older) == 0  # their own limit is the longer one
    assert candidates(unsafe_min_age_seconds=0, overwritten_min_age_hours=never) == 0
    assert candidates(unsafe_min_age_seconds=older * 3600, overwritten_min_age_hours=0) == 0  # the run's is


def test_copy_that_the_log_came_to_need_after_the_listing_is_kept(tmp_path: Path) -> None:
    library = old_repo_infos(tmp_path, 30)
    run = Repo(tmp_path).listed(overwritten_min_age_hours=0)
    summary = check_limits(run)
    assert summary.counts["deletable_objects"] > 15
    candidates = set()
    for key in output_of(run).keys(run.folder, "overwritten"):
        candidates.add(key.removeprefix("overwritten/"))
    for number in range(2):
        library.writable_session("main").commit(f"meanwhile {number}", allow_empty=True)
    needed = needed_now(tmp_path) & candidates
    assert needed
    bulk_delete(run, LocalRunner())
    left = {path.name for path in (tmp_path / "overwritten").iterdir()}
    assert needed <= left
    assert len(candidates - left) > 10


def output_of(run: Run) -> ListCandidatesOutput:
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    return ListCandidatesOutput.of(summary)


def needed_now(folder: Path) -> set[str]:
    reader = open_reader(f"file://{folder}")
    return needed_copies(reader, read_repo_info(reader))
