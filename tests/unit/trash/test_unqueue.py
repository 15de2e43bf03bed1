"""Live tokens come off the server's drop queue; everything else stays as it is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dredge.errors import RefusedError
from dredge.kv.rows import Row
from dredge.trash.restore import restore, unqueue
from dredge.trash.state import TrashState
from dredge.trash.undo import put_back
from tests.support.kv_world import World, dump, memory_store

TOKEN = b"orchard-pfx:5bbc0db9-1b21-4ed1-ba81-0dc3d555b68f"


def test_the_marker_of_a_real_servers_live_token_goes_and_nothing_else(state: TrashState) -> None:
    store = memory_store(datetime.now(UTC))
    before = set(dump("d2_live_token_queued"))
    store.load(before)
    marker = {row for row in before if row.partition == b"cleanup-tokens"}
    trial = unqueue(store, state, clock=store.machine_clock)
    assert [(line["token"], line["branches"], line["fate"]) for line in trial] == [
        (TOKEN.decode(), ["pfx"], "would remove")
    ]
    assert store.all_rows() == before
    assert [line["fate"] for line in unqueue(store, state, clock=store.machine_clock, dry_run=False)] == [
        "removed"
    ]
    assert store.all_rows() == before - marker
    run = next(run for run in state.runs())
    assert put_back(store, state.undo(run).read()) == (1, 0)
    assert store.all_rows() == before


def test_restoring_a_run_does_not_queue_a_token_that_a_branch_names(state: TrashState) -> None:
    world = World()
    _, token = world.repository("lake")
    world.queue(token)
    unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False)
    (run,) = state.runs()
    for dry_run in (True, False):
        told = restore(world.store, state, run, dry_run=dry_run)
        assert told["markers_of_live_tokens"] == 1
        assert list(world.kv.scan(b"cleanup-tokens")) == [], "the server would drop acknowledged uploads"
    assert told["rows_written"] == 0


def test_the_marker_of_a_token_that_nothing_names_stays(state: TrashState) -> None:
    world = World()
    world.repository("lake")
    token = world.token("lake", "main")
    world.queue(token)
    partition, dying = world.repository("dying")
    world.record(partition, state=1)
    world.queue(dying)
    assert unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False) == []
    assert len(list(world.kv.scan(b"cleanup-tokens"))) == 2


def test_a_branch_that_lets_go_of_the_token_meanwhile_keeps_the_marker(state: TrashState) -> None:
    world = World()
    partition, token = world.repository("lake")
    world.queue(token)
    world.store.before_delete.append(
        lambda: world.branch(partition, "main", "head", world.token("lake", "main"))
    )
    done = unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False)
    assert [line["fate"] for line in done] == ["changed"]
    assert Row(b"cleanup-tokens", token.encode(), b"stub-value") in world.store.all_rows()


def test_only_branches_that_name_the_token_are_told_and_guard_it(state: TrashState) -> None:
    world = World()
    partition, token = world.repository("lake")
    world.branch(partition, "side", "head", world.token("lake", "side"), sealed=[token])
    world.branch(partition, "other", "head", world.token("lake", "other"))
    lost, _ = world.beginning("pond")
    world.branch(lost, "theirs", "head", token)
    world.queue(token)
    world.store.before_delete.append(
        lambda: world.branch(partition, "other", "head", world.token("lake", "other"))
    )
    (done,) = unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False)
    assert done == {"token": token, "branches": ["main", "side"], "fate": "removed"}


def test_a_marker_is_in_the_undo_log_before_it_goes(state: TrashState) -> None:
    world = World()
    _, token = world.repository("lake")
    world.queue(token)
    logged: list[Row] = []
    world.store.before_delete.append(lambda: logged.extend(state.undo(state.runs()[0]).read()))
    unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False)
    assert logged == [Row(b"cleanup-tokens", token.encode(), b"stub-value")]


def test_a_marker_that_changed_meanwhile_stays(state: TrashState) -> None:
    world = World()
    _, token = world.repository("lake")
    world.queue(token)
    world.store.before_delete.append(lambda: world.kv.set(b"cleanup-tokens", token.encode(), b"new"))
    (done,) = unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False)
    assert done["fate"] == "changed"
    assert world.kv.get(b"cleanup-tokens", token.encode()) == b"new"


def test_markers_of_another_store_than_the_folders_stay(state: TrashState) -> None:
    world = World()
    _, token = world.repository("lake")
    world.queue(token)
    unqueue(world.store, state, clock=world.store.machine_clock)
    world.kv.set(b"auth", b"installation_id", b"two")
    with pytest.raises(RefusedError):
        unqueue(world.store, state, clock=world.store.machine_clock, dry_run=False)
    assert len(list(world.kv.scan(b"cleanup-tokens"))) == 1
