"""What must not be called trash, rule by rule; breaking the rule makes its test fail."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dredge import xid
from dredge.errors import FormatError, RefusedError
from dredge.lakefs.files import messages
from dredge.lakefs.files.messages import to_timestamp
from dredge.trash.findings import TrashFinding, TrashMargins
from dredge.trash.look import look_through, read_look
from dredge.trash.rules import classify
from lakefs_embedded.kv import Entry
from tests.support.kv_world import DAY, START, LiveView, World, countdown_id
from tests.support.trash import Watcher

# Fail closed


@pytest.mark.parametrize(
    ("partition", "key", "value"),
    [
        (b"graveler", b"repos/bad", b"\xff\xff"),
        (b"graveler", b"repos/bad", b""),
        (b"LIVE", b"branches/bad", b"\xff\xff"),
        (b"LIVE", b"branches/bad", b""),
        (b"LIVE", b"commits/bad", b"\xff\xff"),
        (b"LIVE", b"tags/bad", b"\xff\xff"),
        (b"ZOMBIE", b"branches/bad", b"\xff\xff"),
        (b"ZOMBIE", b"commits/bad", b""),
    ],
)
def test_a_record_that_cannot_be_read_ends_the_run(
    world: World, partition: bytes, key: bytes, value: bytes
) -> None:
    live, _ = world.repository("lake")
    zombie, _ = world.beginning("zombie")
    world.kv.set({b"LIVE": live, b"ZOMBIE": zombie}.get(partition, partition), key, value)
    with pytest.raises(FormatError):
        read_look(world.store)


@pytest.mark.parametrize("version", [None, b"3", b"5", b""])
def test_another_schema_version_ends_the_run(world: World, version: bytes | None) -> None:
    world.kv.delete(b"kv-internal-metadata", b"kv/schema/version")
    if version is not None:
        world.kv.set(b"kv-internal-metadata", b"kv/schema/version", version)
    with pytest.raises(RefusedError):
        read_look(world.store)


def test_without_snapshots_what_comes_into_use_during_the_look_is_not_judged(world: World) -> None:
    partition, main = world.repository("lake")
    token = world.stage(world.token("lake", "main"))
    dropped = world.token("lake", "old")
    world.stage(dropped)
    world.branch(partition, "old", "head", dropped)
    zombie, _ = world.beginning("late", uid=xid.new_xid(START - 9 * DAY))
    doomed, _ = world.repository("doomed")

    class Shifting(LiveView):
        """A view in which things happen once the candidates were read."""

        reads = 0

        def scan(self, name: bytes, start: bytes = b"") -> Iterator[Entry]:
            if name == b"graveler":
                self.reads += 1
                if self.reads == 2:  # the references that count
                    world.branch(partition, "main", "head", token.decode(), sealed=[main])
                    world.kv.delete(partition, b"branches/old")
                    world.record(zombie)
                    world.kv.delete(b"graveler", b"repos/doomed")
            return super().scan(name, start)

    look = look_through(Shifting(world.kv, world.store.rows))
    found = {
        f.partition: f.verdict
        for f in classify(look, START + 99 * DAY, TrashMargins(grace=timedelta(0), unsafe_short_grace=True))
    }
    assert token not in found
    assert zombie not in found
    assert found[dropped.encode()] == "wait"
    assert found[doomed] == "wait"


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


SECOND = timedelta(seconds=1)
INDEX = messages.encode(messages.SecondaryIndex(primary_key=b"p1"))


def size(key: bytes, value: bytes) -> int:
    return len(key) + len(value)


def told(finding: TrashFinding) -> tuple[str, str, int, int]:
    return finding.kind, finding.verdict, finding.rows, finding.size_bytes


@pytest.mark.parametrize(
    ("partition", "key"),
    [
        (b"pulls", b"repos/x/a"),
        pytest.param(b"pulls", b"repos/keeper-dcrep00ivln1f1ipml70/a/b", id="no-time"),
        (b"actions", b"repos/x/novel/r"),
        pytest.param(b"actions", b"repos/x/novel/" + countdown_id(START).encode(), id="actions-novel"),
        (b"actions", b"repos/x/runs/no-id"),
        (b"mc-ownership", b"something/else"),
        (b"catalog", b"something/else"),
        (b"graveler_deleted", b"something/else"),
    ],
)
def test_a_key_of_another_shape_is_reported_and_never_touched(
    world: World, watcher: Watcher, partition: bytes, key: bytes
) -> None:
    world.kv.set(partition, key, INDEX)
    watcher.look(99 * DAY)
    found = watcher.look(99 * DAY)[partition, key]
    assert told(found) == ("unknown", "report", 1, size(key, INDEX))


def test_the_index_of_a_pull_waits_for_whoever_decides_about_its_repository(
    world: World, watcher: Watcher
) -> None:
    dying, _ = world.repository("dying")
    made, _ = world.repository("made")
    world.record(dying, state=1)
    world.record(made, state=2)
    bare = b"bare-" + xid.new_xid(START).encode()
    world.record(bare, state=1)
    lost, token = world.beginning("lost")
    world.stage(token)
    unclear = b"gulf-" + xid.new_xid(START).encode()
    world.kv.set(unclear, b"novelties/1", b"?")
    keys = [world.pull_index(partition, "a", "b") for partition in (dying, made, bare, lost, unclear)]
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    for key in keys:
        value = world.kv.get(b"pulls", key)
        assert value is not None
        assert told(found[b"pulls", key]) == ("pull-index", "wait", 1, size(key, value))


def test_hook_results_are_as_young_as_their_run_says_not_only_its_id(world: World, watcher: Watcher) -> None:
    run = world.run("gone", START)
    key = f"repos/gone/runs/{run}".encode()
    later = messages.RunResultData(run_id=run, start_time=to_timestamp(START + 5 * DAY))
    world.kv.set(b"actions", key, messages.encode(later))
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)[b"actions", key]
    assert (found.verdict, found.since) == ("wait", START + 5 * DAY)
    earlier = messages.RunResultData(run_id=run, start_time=to_timestamp(START - 5 * DAY))
    world.kv.set(b"actions", key, messages.encode(earlier))
    assert watcher.look()[b"actions", key].since == START


@pytest.mark.parametrize(("name", "kept"), [("pond", True), ("lake", False), ("pond-x", False)])
def test_a_lost_life_keeps_what_belongs_to_its_name_and_to_no_other(
    world: World, watcher: Watcher, name: str, kept: bool
) -> None:
    lost, token = world.beginning(name, uid=xid.new_xid(START - 9 * DAY))
    world.stage(token)
    world.beginning("slow")
    run, hint = world.run("pond", START), world.owner("pond", "main", START)
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    assert found[lost, None].verdict == "report"
    results = {f.kind: f.verdict for f in found.values() if run in (f.key or b"").decode()}
    assert results == ({} if kept else {"actions-of-missing-repository": "trash"})
    assert ((b"mc-ownership", hint) in found) == (not kept)

    # So it is with results of an earlier life while another one is in use.
    world.store.now = START + 2 * DAY
    world.repository("pond")
    world.store.now = START + 18 * DAY
    watcher.look()
    found = watcher.look(9 * DAY)
    results = {f.kind: f.verdict for f in found.values() if run in (f.key or b"").decode()}
    assert results == ({} if kept else {"actions-of-previous-instance": "trash"})


def heartbeat(when: datetime) -> bytes:
    return messages.encode(messages.InstanceHeartbeat(updated_at=to_timestamp(when)))


def test_a_heartbeat_is_unused_two_days_after_the_last_and_then_waits(world: World, watcher: Watcher) -> None:
    key, value = b"instances/x", heartbeat(START)
    world.kv.set(b"catalog", key, value)
    assert watcher.look(2 * DAY - SECOND) == {}
    assert watcher.verdict_of(b"catalog", key, SECOND) == ("heartbeat", "wait")
    found = watcher.look(DAY)[b"catalog", key]
    assert told(found) == ("heartbeat", "trash", 1, size(key, value))
    assert found.since == START
    world.kv.set(b"catalog", b"instance/x", value)
    assert watcher.look()[b"catalog", b"instance/x"].verdict == "report"


def test_the_entry_of_a_deleted_repository_is_trash_unless_a_record_names_it(
    world: World, watcher: Watcher
) -> None:
    live, _ = world.repository("lake")
    rows, _ = world.beginning("pond")
    entries = {name: f"repo/{name}/{xid.new_xid(START)}".encode() for name in ("lake", "pond", "gone")}
    entries["lake"] = b"repo/lake/" + live[-20:]
    entries["pond"] = b"repo/pond/" + rows[-20:]
    for key in entries.values():
        world.kv.set(b"graveler_deleted", key, b"v")
    watcher.look()
    watcher.world.store.now += DAY
    found = {name: watcher.look()[b"graveler_deleted", key] for name, key in entries.items()}
    sizes = {name: size(key, b"v") for name, key in entries.items()}
    assert told(found["lake"]) == ("deleted-entry", "wait", 1, sizes["lake"])
    assert told(found["pond"]) == ("deleted-repository", "trash", 1, sizes["pond"])
    assert told(found["gone"]) == ("deleted-repository", "trash", 1, sizes["gone"])
