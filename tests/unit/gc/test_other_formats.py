"""Files of another format are refused: a plan stops the run, a state of an older one makes the next run a clean one."""

import json

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc import run as runs
from dredge.gc import state
from dredge.gc.index import store as index
from dredge.gc.run import Run, read_plan
from dredge.gc.save_report.step import read_report
from dredge.gc.state import earlier_runs
from dredge.runs.versions import VERSIONS
from tests.support.gc import World, make_world
from tests.support.tries import come_to


@pytest.fixture
def world() -> World:
    world = make_world(mode="auto", rules=30)
    world.commit("a", b"first")
    world.age(days=2)
    return world


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_run_that_a_version_with_another_format_planned_is_not_carried_out(
    world: World, difference: int
) -> None:
    first = world.plan()
    first.folder.write_json(
        "plan.json", first.folder.read_json("plan.json") | {"format": runs.FORMAT + difference}
    )
    for read in (read_plan, read_report, lambda uri: Run.open(uri, None, world.client)):
        with pytest.raises(FormatError, match=f"format {runs.FORMAT + difference}"):
            read(first.plan.run_uri)


def test_an_earlier_run_of_another_format_is_named_though_nobody_can_tell_whose_it_is(world: World) -> None:
    first = world.collected(dry_run=True)
    first.folder.write_json("plan.json", first.folder.read_json("plan.json") | {"format": runs.FORMAT - 1})
    world.age(hours=1)
    ((folder, found),) = earlier_runs(world.plan())
    assert (folder.run_id, found) == (first.plan.run_id, None)


@pytest.mark.parametrize(("difference", "is_refused"), [(-1, False), (1, True)])
def test_a_state_of_an_older_format_makes_a_clean_run_and_one_of_a_newer_stops_it(
    world: World, difference: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(state.RunState.__init__, "__kwdefaults__", {"format": state.FORMAT + difference})
        world.collect()
    (name,) = world.lake.keys(f"_lakefs/retention/gc/dredge/{VERSIONS}/")
    assert json.loads(world.lake.objects.get(name))["format"] == state.FORMAT + difference
    world.age(hours=1)
    if is_refused:
        with pytest.raises(RefusedError):
            world.plan()
        return
    planned = world.plan().plan
    assert (planned.mode, f"format {state.FORMAT + difference}" in planned.why_mode) == ("clean", True)


@pytest.mark.parametrize("replaced_before", ["subtract", "check_limits", "bulk_delete"])
def test_nothing_goes_by_a_mark_that_read_addresses_in_another_way(
    world: World, replaced_before: str
) -> None:
    """The re-check reads no range that the mark has read."""
    orphan = world.orphan("data/slice/orphan")
    world.age(days=3)
    first = world.plan()
    with pytest.MonkeyPatch.context() as other:
        other.setattr(index, "FORMAT", index.FORMAT - 1)
        come_to(first, replaced_before)
    with pytest.raises(RefusedError):
        world.run(first)
    assert orphan in world.data()


@pytest.mark.parametrize("name", ["covered", "namespaces", "undo", "state"])
def test_a_plan_that_lacks_a_field_is_damaged_though_the_field_has_a_default(world: World, name: str) -> None:
    value = world.plan().folder.read_json("plan.json")
    del value[name]
    with pytest.raises(FormatError, match=name):
        runs.parse_plan(value)
