"""Repositories of releases 0.2.9 and later: history, expiration, collection."""

import itertools
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from dredge.errors import RefusedError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.history import History
from dredge.icechunk.repository import read_history, with_restamped
from dredge.storage import open_reader
from tests.support.icechunk import SCENARIOS, contents, local_storage, objects, quiet
from tests.support.icechunk_expiring import expire

ARCHIVE = SCENARIOS.parent / "expired_by_0.2.9.zip"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    shutil.unpack_archive(ARCHIVE, tmp_path / "repo")
    return tmp_path / "repo"


def history_of(folder: Path) -> History:
    return read_history(open_reader(f"file://{folder}"))


def by_message(history: History) -> dict[str, str]:
    return {entry.message: entry.id for entry in history.snapshots.values()}


def thresholds(history: History) -> list[datetime]:
    times = sorted(entry.flushed_at for entry in history.snapshots.values())
    return [instant(time + step) for time in times for step in (-1, 0, 1)] + [datetime.now(UTC)]


def upgrade(folder: Path) -> None:
    icechunk = quiet()
    library = icechunk.Repository.open(local_storage(folder))
    icechunk.upgrade_icechunk_repository(library, dry_run=False, delete_unused_v1_files=True)


def test_history_that_0_2_9_expired_is_read_with_the_snapshot_whose_time_it_changed(repo: Path) -> None:
    history = history_of(repo)
    ids = by_message(history)
    assert history.restamped == {ids["commit 4"]}
    assert history.snapshots[ids["commit 4"]].flushed_at > history.snapshots[ids["commit 6"]].flushed_at
    history.check()


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=2)))
def test_it_is_expired_as_the_library_does_at_every_threshold(
    repo: Path, flags: tuple[bool, bool], spec: int, tmp_path: Path
) -> None:
    if spec == 2:
        upgrade(repo)
    for number, threshold in enumerate(thresholds(history_of(repo))):
        ours, theirs = tmp_path / f"ours-{number}", tmp_path / f"theirs-{number}"
        shutil.copytree(repo, ours)
        shutil.copytree(repo, theirs)
        released = (
            quiet()
            .Repository.open(local_storage(theirs))
            .expire_snapshots(threshold, delete_expired_branches=flags[0], delete_expired_tags=flags[1])
        )
        done = expire(
            f"file://{ours}", threshold, delete_expired_branches=flags[0], delete_expired_tags=flags[1]
        )
        assert set(done.plan.released) == released
        mine, other = history_of(ours), history_of(theirs)
        assert {ref.label: mine.ancestry(ref.tip) for ref in mine.refs} == {
            ref.label: other.ancestry(ref.tip) for ref in other.refs
        }
        if spec == 2:
            assert set(mine.snapshots) == set(other.snapshots)


def test_no_snapshot_leaves_a_history_before_its_own_time(repo: Path) -> None:
    history = history_of(repo)
    for rule in ("document", "spec_v1"):
        for threshold in thresholds(history):
            plan = plan_expiration(history, threshold, rule=rule)
            left = {node for path in plan.ancestries().values() for node in path}
            for gone in history.reachable() - left:
                assert instant(history.snapshots[gone].flushed_at) < threshold


def test_collection_keeps_what_refs_need_and_takes_the_rest(repo: Path) -> None:
    before = {
        name: contents(quiet().Repository.open(local_storage(repo)), **{name: ref})
        for name, ref in (("branch", "main"), ("tag", "old"))
    }
    shutil.copytree(repo, repo.with_name("theirs"))
    cutoff = datetime.now(UTC) + timedelta(seconds=5)
    quiet().Repository.open(local_storage(repo.with_name("theirs"))).garbage_collect(cutoff)
    settings = CollectConfig(
        uri=f"file://{repo}",
        dry_run=False,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        keep_lost_days=0,
        max_delete_percent=None,
    )
    assert collect(settings)["deleted"]["objects"] > 0
    assert objects(repo) == objects(repo.with_name("theirs"))
    library = quiet().Repository.open(local_storage(repo))
    assert {"branch": contents(library, branch="main"), "tag": contents(library, tag="old")} == before


def rewritten(folder: Path, snapshot: str, writer: bytes) -> None:
    path = folder / "snapshots" / snapshot
    opened = open_file(path.read_bytes(), snapshot, FileType.SNAPSHOT)
    header = opened.header[:12] + writer.ljust(24) + opened.header[36:]
    path.write_bytes(close_file(header, opened.body))


@pytest.mark.parametrize("writer", [b"ic-0.2.10", b"ic-0.3.24", b"ic-2.3.0", b"ic-10.2.9"])
def test_the_same_times_by_a_release_that_keeps_times_are_a_wrong_clock(repo: Path, writer: bytes) -> None:
    rewritten(repo, by_message(history_of(repo))["commit 4"], writer)
    with pytest.raises(RefusedError):
        history_of(repo).check()


def test_newer_parent_that_is_not_on_a_root_is_a_wrong_clock(repo: Path) -> None:
    history = history_of(repo)
    ids = by_message(history)
    # 5 newer than 6: written by 0.2.9, but its parent is no root, so no expiration gave it that time.
    five = history.snapshots[ids["commit 5"]]
    later = structs.replace(five, flushed_at=history.snapshots[ids["commit 4"]].flushed_at + 1)
    damaged = replace(history, snapshots={**history.snapshots, five.id: later})
    asked = with_restamped(open_reader(f"file://{repo}"), replace(damaged, restamped=frozenset()))
    assert asked.restamped == frozenset()
    with pytest.raises(RefusedError):
        asked.check()


def test_history_with_a_wrong_clock_can_be_collected(repo: Path) -> None:
    rewritten(repo, by_message(history_of(repo))["commit 4"], b"ic-2.3.0")
    settings = CollectConfig(
        uri=f"file://{repo}",
        dry_run=False,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        keep_lost_days=0,
        max_delete_percent=None,
    )
    assert collect(settings)["outcome"] == "success"
