"""Earlier runs of a repository are found wherever they lie."""

import json
from typing import Any

import pytest

from dredge.errors import UnavailableError
from dredge.gc import state
from dredge.gc.run import Run
from dredge.gc.state import earlier_runs
from dredge.storage import open_writer
from dredge.xid import new_descending_xid
from tests.support.gc import World, make_world

ROOT = "memory://runs/elsewhere"


def before(world: World, **settings: Any) -> Run:
    world.upload("a", b"1")
    done = world.collected(dry_run=True, **settings)
    world.age(minutes=1)
    return done


def ids(run: Run) -> list[str]:
    return [folder.run_id for folder, _ in earlier_runs(run)]


def test_runs_beside_the_repository_are_earlier_runs_of_one_elsewhere() -> None:
    world = make_world()
    first = before(world)
    assert ids(world.plan(run_root=ROOT)) == [first.plan.run_id]


def test_runs_elsewhere_are_earlier_runs_of_one_beside_the_repository() -> None:
    world = make_world()
    world.upload("a", b"1")
    first = world.collected(run_root=ROOT)
    world.age(minutes=1)
    assert ids(world.plan()) == [first.plan.run_id]


def test_an_earlier_run_is_found_however_many_runs_of_others_lie_beside_it() -> None:
    world = make_world()
    first = before(world, run_root=ROOT)
    plan = first.folder.read_json("plan.json") | {"repository": "another"}
    for _ in range(301):
        run_id = new_descending_xid(world.age(seconds=1))
        open_writer(f"{ROOT}/{run_id}").put("plan.json", json.dumps(plan | {"run_id": run_id}).encode())
    world.age(minutes=1)
    assert ids(world.plan(run_root=ROOT)) == [first.plan.run_id]


def test_where_the_store_is_busy_no_earlier_run_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    first = before(world)
    run = world.plan()

    def busy(_reader: object, _name: str) -> Any:
        raise UnavailableError("503 SlowDown")

    with monkeypatch.context() as patch:
        patch.setattr(state, "read_json", busy)
        with pytest.raises(UnavailableError, match="SlowDown"):
            ids(run)
    assert ids(run) == [first.plan.run_id]
