"""c2: a second installation on production's namespace deletes nothing that production needs, and production's people
are told of it, whichever of the two runs first and whatever its URL is."""

from collections.abc import Callable
from functools import partial

import pytest

from dredge.errors import BlockedError, RefusedError, WitnessError
from dredge.gc.run import Run, open_state
from dredge.gc.steps import read_report
from dredge.gc.witness.owner import KEY, KIND, MARK_ID, OWNER, read_block, read_ids, read_visitors
from dredge.gc.witness.people import lift_block, take_over
from dredge.gc.witness.record import POINTER
from dredge.runs.payload import StepSummary
from dredge.runs.run import reopen
from tests.support.gc import World
from tests.support.second_server import busy_production, copy_of, work_on

OTHER = "http://rehearsal:8000"
URLS = pytest.mark.parametrize("url", [OTHER, None], ids=["another URL", "the same URL"])
MODES = pytest.mark.parametrize("mode", ["clean", "auto"])


def warnings_of(world: World, **settings: object) -> list[str]:
    run = world.collected(**settings)
    found: list[str] = read_report(run)["warnings"]
    return found


def outcome(world: World, **settings: object) -> list[str] | RefusedError:
    try:
        return warnings_of(world, **settings)
    except RefusedError as error:
        return error


def assert_told(result: list[str] | RefusedError) -> None:
    if isinstance(result, RefusedError):
        assert result.kind in ("witness", "blocked")
    else:
        assert any("another installation" in warning for warning in result)


@URLS
@MODES
def test_c2_production_ran_first_and_then_a_copy_of_its_database(url: str | None, mode: str) -> None:
    production = busy_production()
    copy = copy_of(production, url)
    garbage = production.orphan("data/x/orphan")
    production.age(days=2)
    production.collect(mode=mode)
    assert garbage not in production.data()
    work = work_on(production)
    with pytest.raises(WitnessError):
        copy.collect(mode=mode)
    assert work <= production.data()
    assert_told(outcome(production, mode=mode))
    production.assert_readable()


@URLS
@MODES
def test_c2_a_copy_ran_first_and_then_production(url: str | None, mode: str) -> None:
    production = busy_production()
    copy = copy_of(production, url)
    work = work_on(production)
    copy.collect(mode=mode)
    assert work <= production.data()
    assert_told(outcome(production, mode=mode))
    outcome(copy, mode=mode)
    production.assert_readable()


@URLS
def test_c2_production_owned_the_namespace_before_the_copy_was_made(url: str | None) -> None:
    production = busy_production()
    production.collect()
    copy = copy_of(production, url)
    work = work_on(production)
    result = outcome(copy)
    assert isinstance(result, RefusedError) == (url is not None), "under the same URL only its id tells it"
    assert work <= production.data()
    result = outcome(production)
    assert_told(result)
    assert isinstance(result, RefusedError) == (url is None)
    outcome(copy)
    production.assert_readable()


@URLS
def test_c2_with_undo_no_copy_of_a_live_object_is_left_for_a_purge(url: str | None) -> None:
    production = busy_production(undo="quarantine")
    copy = copy_of(production, url)
    work_on(production)
    outcome(copy, mode="auto")
    for day in range(4):
        work_on(production, day + 1)
        outcome(production, mode="auto")
    assert not [key for key in production.lake.keys("_lakefs/retention/gc/unified/") if "/quarantine/" in key]
    production.assert_readable()


def test_a_dry_run_of_a_copy_goes_on_warns_and_leaves_nothing_that_counts() -> None:
    production = busy_production()
    production.collect()
    copy = copy_of(production, OTHER)
    work_on(production)
    state = open_state(production.lake.namespace)
    before = {name: state.get(name) for name in (OWNER, MARK_ID, POINTER)}
    assert any(production.client.url in warning for warning in warnings_of(copy, dry_run=True))
    assert {name: state.get(name) for name in (OWNER, MARK_ID, POINTER)} == before
    assert read_block(state) is None
    assert copy.client.metadata("lake") == {KEY: read_ids(state).last.value} | copy_of(
        production
    ).client.metadata("lake")


def test_a_refused_copy_does_not_stop_production_and_production_is_warned_once() -> None:
    production = busy_production()
    production.collect()
    copy = copy_of(production, OTHER)
    for day in range(3):
        work_on(production, day)
        with pytest.raises(WitnessError):
            copy.plan()
    state = open_state(production.lake.namespace)
    assert read_block(state) is None
    (visitor,) = read_visitors(state)
    assert (visitor.environment.url, visitor.dry_run) == (OTHER, False)
    production.age(hours=1)
    assert any(OTHER in warning for warning in warnings_of(production))
    production.age(days=1)
    assert not any(OTHER in warning for warning in warnings_of(production))


def test_a_copy_under_the_same_url_blocks_production_until_a_person_lifts_it() -> None:
    production = busy_production()
    production.collect()
    copy = copy_of(production)
    work_on(production)
    copy.collect(dry_run=True)
    production.age(days=1)
    with pytest.raises(WitnessError):
        production.collect()
    state = open_state(production.lake.namespace)
    block = read_block(state)
    assert block is not None
    assert block.kind == KIND
    last = read_ids(state).last
    assert last is not None
    assert block.facts["left_by"] == last.run_id
    for world in (production, copy):
        with pytest.raises(BlockedError):
            world.plan()
    with pytest.raises(WitnessError):
        production.collect(dry_run=True)
    lift_block("lake", "the rehearsal was stopped", client=production.client)
    production.age(days=1)
    garbage = production.orphan("data/x/orphan")
    production.collect_after(days=2)
    assert garbage not in production.data()
    with pytest.raises(WitnessError):
        copy.collect()
    production.assert_readable()


def _go_on(world: World, run: Run) -> StepSummary:
    return world.run(reopen(lambda: Run.open(run.plan.run_uri, None, world.client, world.lake.clock)))


@pytest.mark.parametrize("moment", ["plan", "mark", "delete"])
def test_a_copy_takes_the_namespace_over_before_a_run_of_production_goes_on(moment: str) -> None:
    production = busy_production()
    production.collect()
    copy = copy_of(production, OTHER)
    work_on(production)
    garbage = production.orphan("data/x/orphan")
    production.age(days=2)
    if moment == "plan":
        go_on: Callable[[], object] = production.plan
    else:
        run = production.plan()
        if moment == "delete":
            production.mark(run)
        run.lease.release(run.plan.lease)
        go_on = partial(_go_on, production, run)
    take_over("lake", "a mistake", client=copy.client)
    with pytest.raises(WitnessError):
        go_on()
    assert garbage in production.data()
    production.assert_readable()


def test_the_id_of_a_copy_that_was_made_of_a_later_day_passes_no_older_production() -> None:
    production = busy_production()
    production.collect()
    backup = copy_of(production)
    work_on(production)
    production.collect()
    with pytest.raises(WitnessError):
        backup.collect(dry_run=True)
    assert read_block(open_state(production.lake.namespace)) is not None
