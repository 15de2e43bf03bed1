"""Ledgers are kept until what they name cannot come back any more; then they go with their records."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.gc.run import Run
from dredge.runs import ledger
from dredge.undo.deletions import read_deletions
from tests.support.gc import World
from tests.support.undo import WAYS, purge, restore, undo_world
from tests.support.wrong_runs import state_of

RUNS = "_lakefs/retention/gc/unified"
STATE = "_lakefs/retention/gc/dredge"


def _swept(world: World) -> Run:
    run = world.plan()
    world.run(run)
    for _ in range(2):  # another run is the newest one, and the state names it
        world.age(days=2)
        world.collect()
    return run


def _is_left(world: World, run: Run) -> bool:
    return bool(world.lake.keys(f"{RUNS}/{run.plan.run_id}/"))


def test_the_ledger_of_what_can_still_come_back_is_kept() -> None:
    world, _, _ = undo_world("versions", keep_runs_days=7)
    run = _swept(world)
    world.age(days=60)
    world.collect()
    assert _is_left(world, run)
    purge(world)
    for _ in range(2):
        world.age(days=10)
        world.collect()
    assert not _is_left(world, run)
    assert not read_deletions(state_of(world)).found
    assert not world.lake.keys(f"{STATE}/deletions/")


@pytest.mark.parametrize("way", WAYS)
def test_the_record_of_a_killed_sweep_is_kept_for_what_its_ledger_does_not_tell(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _, gone = undo_world(way, keep_runs_days=7)
    run = world.plan()

    honest = ledger.write_raw

    def killed(*arguments: Any) -> None:
        if ledger.DELETED in arguments[-1]["outcome"].to_pylist():
            raise KeyboardInterrupt
        honest(*arguments)

    monkeypatch.setattr(ledger, "write_raw", killed)
    with pytest.raises(KeyboardInterrupt):
        world.run(run)
    monkeypatch.undo()
    untold = gone - world.data()
    assert untold
    world.age(days=2)
    world.collect()
    world.age(days=60)
    purge(world)
    for _ in range(2):
        world.age(days=10)
        world.collect()
    assert run.plan.run_id in [item.run_id for item in read_deletions(state_of(world)).found]
    restore(world, run, all=True)
    assert untold <= world.data()
