"""Spec 2: a repo info that was put back, and `refs/` beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import RefusedError, WitnessError
from dredge.icechunk.collection.steps import Run, bulk_delete, find_garbage, plan_collection, release_lease
from dredge.icechunk.collection.witness.judging import forget_lost
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk import quiet
from tests.support.icechunk_past import Past

HERE = LocalRunner()


@pytest.fixture
def v2(tmp_path: Path) -> Past:
    return Past(tmp_path / "v2", 2)


@pytest.fixture
def v1(tmp_path: Path) -> Past:
    return Past(tmp_path / "v1", 1)


def now() -> datetime:
    return datetime.now(UTC)


def remove_copies(past: Past) -> None:
    for path in (past.folder / "overwritten").iterdir():
        path.unlink()


def log_of_one_entry(past: Past) -> Any:
    config = quiet().RepositoryConfig.default()
    config.num_updates_per_repo_info_file = 1
    return quiet().Repository.open(past.storage, config=config)


@pytest.mark.parametrize("commits", [1, 3])
def test_repo_info_that_was_put_back_stops_the_run_until_a_person_accepts_it(v2: Past, commits: int) -> None:
    v2.commit()
    with v2.put_back("repo"):
        for _ in range(commits):
            v2.commit()
        v2.collect()
    remove_copies(v2)
    before, record = v2.objects(), v2.record()
    v2.pass_days(40)
    record = v2.record()
    with pytest.raises(WitnessError) as refused:
        v2.collect()
    assert "operation" in str(refused.value)
    assert (v2.objects(), v2.record()) == (before, record)
    forget_lost(v2.uri, "that night's commits were wrong")
    for _ in range(2):
        assert v2.collect()["outcome"] == "success"
        assert v2.objects() == before  # with the history of the lost tip, which files of spec 2 do not name


def test_commit_that_no_run_saw_is_kept_when_the_repo_info_is_put_back(v2: Past) -> None:
    v2.commit()
    v2.collect()
    with v2.put_back("repo"):
        late = v2.commit()
    remove_copies(v2)
    before = v2.objects()
    assert v2.collect()["deleted"]["objects"] == 0
    assert v2.objects() == before
    assert late in before["snapshots"]


def test_commits_and_changes_of_refs_go_on_without_a_question(v2: Past) -> None:
    v2.commit()
    v2.collect()
    for number in range(3):
        v2.commit()
        v2.library.create_tag(f"t{number}", v2.tip())
    assert v2.collect()["outcome"] == "success"


def test_log_whose_older_part_is_gone_says_nothing_and_asks_no_person(v2: Past) -> None:
    v2.commit()
    v2.collect()
    repo = log_of_one_entry(v2)
    for _ in range(3):
        v2.commit(repo=repo)
    remove_copies(v2)
    assert v2.collect()["outcome"] == "success"


def test_reset_of_main_that_the_log_shows_asks_no_person(v2: Past) -> None:
    first = v2.commit()
    v2.commit()
    v2.collect()
    v2.library.reset_branch("main", first)
    v2.commit()
    v2.library.expire_snapshots(older_than=now())
    assert v2.collect()["outcome"] == "success"


def test_amended_tip_of_main_that_an_expiration_dropped_asks_no_person(v2: Past) -> None:
    import zarr

    v2.commit()
    v2.commit()
    v2.collect()
    session = v2.library.writable_session("main")
    zarr.create_array(session.store, name="more", shape=(1,), chunks=(1,), dtype="i4")[:] = 1
    session.amend("again")
    v2.library.expire_snapshots(older_than=now())
    assert v2.collect()["outcome"] == "success"


def upgraded(v1: Past) -> Any:
    writer = v1.library
    quiet().upgrade_icechunk_repository(v1.library, dry_run=False, delete_unused_v1_files=False)
    return writer


def refs_of(past: Past) -> set[str]:
    return {json.loads(path.read_text())["snapshot"] for path in past.folder.glob("refs/*/ref.json")}


def test_commits_of_a_writer_that_goes_on_with_spec_1_stop_the_run(v1: Past) -> None:
    v1.commit()
    writer = upgraded(v1)
    v1.commit(repo=writer)
    before = v1.objects()
    with pytest.raises(WitnessError) as refused:
        v1.collect()
    assert "branch:main" in str(refused.value)
    assert v1.objects() == before
    assert refs_of(v1) <= before["snapshots"]


def test_accepted_commits_of_such_a_writer_are_kept_and_later_ones_ask_again(v1: Past) -> None:
    v1.commit()
    writer = upgraded(v1)
    late = v1.commit(repo=writer)
    forget_lost(v1.uri, "written again with spec 2")
    v1.pass_days(40)
    assert v1.collect()["deleted"]["objects"] == 0
    assert late in v1.objects()["snapshots"]
    assert v1.collect()["outcome"] == "success"
    v1.commit(repo=writer)
    with pytest.raises(WitnessError):
        v1.collect()


@pytest.mark.parametrize("kept", [True, False])
def test_what_left_over_refs_reach_is_kept_until_a_person_lets_it_go(v1: Past, kept: bool) -> None:
    old = [v1.commit() for _ in range(3)]
    upgraded(v1)
    v1.commit()
    v1.library.expire_snapshots(older_than=now())
    v1.pass_days(40)
    report = v1.collect(keep_old_refs=kept)
    assert report["warnings"]
    left = v1.objects()["snapshots"]
    assert (set(old) <= left) is kept


def test_missing_files_of_left_over_refs_are_no_damage(v1: Past) -> None:
    v1.commit()
    upgraded(v1)
    v1.commit()
    v1.library.expire_snapshots(older_than=now())
    (old,) = refs_of(v1)
    (v1.folder / "snapshots" / old).unlink()
    assert v1.collect()["outcome"] == "success"


def test_refs_beside_a_log_that_does_not_name_the_upgrade_stop_the_run(v1: Past) -> None:
    v1.commit()
    upgraded(v1)
    short = log_of_one_entry(v1)
    for _ in range(3):
        v1.commit(repo=short)
    remove_copies(v1)
    with pytest.raises(WitnessError):
        v1.collect()


def test_ref_of_spec_1_that_is_written_between_mark_and_sweep_stops_the_sweep(v1: Past) -> None:
    v1.commit()
    v1.library.create_branch("job", v1.tip())
    v1.commit("job")
    writer = upgraded(v1)
    v1.library.delete_branch("job")
    v1.library.expire_snapshots(older_than=now())
    run = Run.open(plan_collection(v1.config(keep_lost_days=0, keep_old_refs=False)).run_uri)
    find_garbage(run, HERE)
    v1.commit("job", repo=writer)
    before = v1.objects()
    with pytest.raises(RefusedError):
        bulk_delete(run, HERE)
    release_lease(run)
    assert v1.objects() == before
