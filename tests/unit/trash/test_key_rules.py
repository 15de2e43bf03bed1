"""What keys must not be called trash, rule by rule; breaking the rule makes its test fail."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dredge.lakefs.files import messages
from tests.support.kv_world import DAY, START, World
from tests.support.trash import Watcher


def test_an_import_or_task_lives_48_hours_from_its_last_update(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.import_status(partition, world.now)
    task = messages.GarbageCollectionPrepareStatus(
        task=messages.Task(id="t", updated_at=messages.to_timestamp(world.now))
    )
    world.kv.set(partition, b"tasks/t", messages.encode(task))
    assert watcher.look(2 * DAY - timedelta(seconds=1)) == {}
    found = watcher.look(timedelta(seconds=1))
    assert {(f.key, f.kind, f.verdict) for f in found.values()} == {
        (key, "import-expired", "wait"),
        (b"tasks/t", "task-expired", "wait"),
    }
    assert {finding.verdict for finding in watcher.look(DAY).values()} == {"trash"}


def test_a_status_without_a_time_is_not_taken_for_one_of_1970(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.import_status(partition, None)
    world.kv.set(b"catalog", b"instances/x", b"")
    found = watcher.look(99 * DAY)
    assert found[partition, key].verdict == "report"
    assert found[b"catalog", b"instances/x"].verdict == "report"


def test_a_status_that_cannot_be_read_is_left_alone(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    world.kv.set(partition, b"imports/x", b"\xff\xff\xff")
    world.kv.set(b"pulls", b"repos/lake-x/a/b", b"\xff\xff\xff")
    world.kv.set(b"multiparts", b"u", b"\xff\xff\xff")
    watcher.look(9 * DAY)
    assert {finding.verdict for finding in watcher.look(9 * DAY).values()} == {"report"}


def test_a_pull_index_waits_for_its_pull_to_be_written(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.pull_index(partition, "a", "b", made=world.now + 2 * DAY)
    assert watcher.verdict_of(b"pulls", key) == ("pull-index-dangling", "wait")
    assert watcher.verdict_of(b"pulls", key, 2 * DAY) == ("pull-index-dangling", "wait")
    assert watcher.verdict_of(b"pulls", key, DAY) == ("pull-index-dangling", "wait")
    assert watcher.verdict_of(b"pulls", key, DAY) == ("pull-index-dangling", "trash")


def test_a_pull_index_with_its_pull_is_live(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    key = world.pull_index(partition, "a", "b")
    pull = messages.SecondaryIndex.FromString(world.kv.get(b"pulls", key)).primary_key
    world.kv.set(partition, b"pulls/" + pull, b"")
    watcher.look(9 * DAY)
    assert watcher.look(9 * DAY) == {}


def test_action_runs_are_told_apart_by_time_not_by_name(world: World, watcher: Watcher) -> None:
    world.store.now = START
    world.repository("lake")
    before = world.run("lake", START - timedelta(seconds=61))
    margin = world.run("lake", START - timedelta(seconds=59))
    after = world.run("lake", START + timedelta(seconds=5))
    torn = world.run("lake", START + timedelta(seconds=6), with_run=False)
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    kinds = {(f.key or b"").decode(): f.kind for f in found.values() if f.verdict == "trash"}
    assert len([k for k in kinds if before in k]) == 3
    assert {kinds[k] for k in kinds if before in k} == {"actions-of-previous-instance"}
    assert {kinds[k] for k in kinds if torn in k} == {"actions-of-missing-run"}
    assert not [k for k in kinds if margin in k or after in k]


def test_a_run_that_skipped_every_hook_stays_although_its_record_says_year_1(
    world: World, watcher: Watcher
) -> None:
    world.store.now = START
    world.repository("lake")
    for repository in ("lake", "gone"):
        world.run(repository, START + timedelta(seconds=5), start=datetime(1, 1, 1, tzinfo=UTC))
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    trash = [(f.key or b"").decode() for f in found.values() if f.verdict == "trash"]
    assert len(trash) == 3
    assert all(key.startswith("repos/gone/") for key in trash)


def test_a_young_action_run_without_its_record_may_be_under_way(world: World, watcher: Watcher) -> None:
    world.repository("lake")
    run = world.run("lake", world.now + 3 * DAY, with_run=False)
    watcher.look()
    found = watcher.look(3 * DAY)
    assert {f.verdict for f in found.values() if run in (f.key or b"").decode()} == {"wait"}


def test_an_ownership_hint_of_a_live_branch_stays(world: World, watcher: Watcher) -> None:
    world.repository("lake")
    world.owner("lake", "main", START - 99 * DAY)
    gone = world.owner("lake", "gone", START)
    assert watcher.verdict_of(b"mc-ownership", gone, DAY - timedelta(seconds=1)) == (
        "branch-owner-stale",
        "wait",
    )
    assert watcher.verdict_of(b"mc-ownership", gone, timedelta(seconds=1)) == ("branch-owner-stale", "wait")
    found = watcher.look(DAY)
    assert found.keys() == {(b"mc-ownership", gone)}
    assert found[b"mc-ownership", gone].verdict == "trash"


def test_an_open_upload_is_never_trash(world: World, watcher: Watcher) -> None:
    upload = messages.UploadData(upload_id="u", creation_date=messages.to_timestamp(world.now))
    world.kv.set(b"multiparts", b"u", messages.encode(upload))
    assert watcher.verdict_of(b"multiparts", b"u", 6 * DAY) == ("multipart", "wait")
    assert watcher.verdict_of(b"multiparts", b"u", 99 * DAY) == ("multipart", "report")


def test_a_dangling_commit_is_reported(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("lake")
    first = world.commit(partition, metarange="")
    tagged = world.commit(partition, parents=[first.id], metarange="cd" * 32)
    merged = world.commit(partition, parents=[first.id, "elsewhere"], metarange="ef" * 32)
    world.tag(
        partition, "v1", world.commit(partition, parents=[tagged.id, merged.id], metarange="01" * 32).id
    )
    lone = world.commit(partition, parents=[first.id], metarange="23" * 32)
    found = watcher.look(9 * DAY)
    assert [(f.key, f.verdict) for f in found.values()] == [(b"commits/" + lone.id.encode(), "report")]


def test_an_ownership_hint_that_has_not_expired_for_a_day_stays(world: World, watcher: Watcher) -> None:
    key = world.owner("gone", "main", START + 3 * DAY)
    assert watcher.verdict_of(b"mc-ownership", key) == ("branch-owner-stale", "wait")
    assert watcher.verdict_of(b"mc-ownership", key, 3 * DAY) == ("branch-owner-stale", "wait")
    assert watcher.verdict_of(b"mc-ownership", key, DAY) == ("branch-owner-stale", "wait")
    assert watcher.verdict_of(b"mc-ownership", key, DAY) == ("branch-owner-stale", "trash")
