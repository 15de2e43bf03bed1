"""Single keys: what their names say, whom they wait for, and the bounds of their age themselves."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dredge import xid
from dredge.lakefs.files import messages
from dredge.lakefs.files.messages import to_timestamp
from dredge.trash.findings import TrashFinding
from tests.support.kv_world import DAY, START, World, countdown_id
from tests.support.trash import Watcher

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


def test_the_index_of_a_pull_goes_with_its_repository_or_without_its_pull(
    world: World, watcher: Watcher
) -> None:
    live, _ = world.repository("lake")
    bare = b"bare-" + xid.new_xid(START).encode()
    world.record(bare)
    world.kv.set(live, b"pulls/another", b"")
    zombie, _ = world.beginning("slow")
    gone = b"gone-" + xid.new_xid(START).encode()
    dangling = [world.pull_index(partition, "a", "b") for partition in (live, bare)]
    missing = [world.pull_index(partition, "a", "b") for partition in (zombie, gone)]
    watcher.look(DAY)
    found = watcher.look(DAY)
    assert {(found[b"pulls", key].kind, found[b"pulls", key].verdict) for key in dangling} == {
        ("pull-index-dangling", "trash")
    }
    assert {(found[b"pulls", key].kind, found[b"pulls", key].verdict) for key in missing} == {
        ("pull-index-of-missing-repository", "trash")
    }
    assert {found[b"pulls", key].since for key in dangling + missing} == {START}


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


def test_hook_results_from_the_margin_before_a_creation_on_are_of_this_life(
    world: World, watcher: Watcher
) -> None:
    world.repository("lake")
    world.run("lake", START - 60 * SECOND)
    watcher.look(9 * DAY)
    assert watcher.look(9 * DAY) == {}


@pytest.mark.parametrize(("name", "kept"), [("pond", True), ("lake", False), ("pond-x", False)])
def test_a_lost_life_keeps_what_belongs_to_its_name_and_to_no_other(
    world: World, watcher: Watcher, name: str, kept: bool
) -> None:
    """A person may bring its record back. One of a name that only begins so, or is as long, keeps nothing."""
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


def test_the_entry_of_a_deleted_repository_waits_for_its_partition(world: World, watcher: Watcher) -> None:
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
    assert told(found["pond"]) == ("deleted-entry", "wait", 1, sizes["pond"])
    assert told(found["gone"]) == ("deleted-repository", "trash", 1, sizes["gone"])
