"""A run took live objects for garbage: the next complete mark finds out, brings them back, and stops everything."""

import pytest

from dredge.errors import AlarmError, UnavailableError
from dredge.gc.steps import approve, bulk_delete
from dredge.runs.run import release_lease
from dredge.undo.alarms import open_alarms, read_alarms, read_rows
from dredge.undo.pins import read_pins
from tests.support.gc import stage_again, summary_of
from tests.support.undo import WAYS
from tests.support.wrong_runs import (
    REUSES,
    blind_witnesses,
    expired_world,
    rehearsal_of,
    say_acknowledged,
    state_of,
    two_servers,
    undo_store,
    wrong_run,
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_live_objects_that_a_run_deleted_come_back_and_raise_an_alarm(
    way: str, dry_run: bool, mode: str
) -> None:
    world, lost = wrong_run(way)
    with pytest.raises(AlarmError) as raised:
        world.collect(dry_run=dry_run, mode=mode)
    assert (raised.value.kind, raised.value.exit_code) == ("alarm", 10)
    assert lost <= world.data()
    world.assert_readable()
    (alarm,) = read_alarms(state_of(world))
    assert alarm.outcomes == {"restored": len(lost)}
    assert sum(alarm.deleted_by.values()) == len(lost)
    assert set(read_rows(state_of(world), alarm)["address"].to_pylist()) == lost
    (pin,) = read_pins(state_of(world))
    assert pin.objects == len(lost)
    assert pin.finished_at is not None


def test_live_objects_of_a_commit_alarm_also_where_the_rules_were_taken_away_since() -> None:
    """Every range file counts as live then, but these are named by a commit."""
    prod, lost = wrong_run()
    prod.lake.catalog.garbage.delete_gc_rules("lake")
    with pytest.raises(AlarmError):
        prod.collect()
    assert lost <= prod.data()


def test_a_run_that_alarms_deletes_nothing_and_says_so_in_its_report() -> None:
    world, _ = wrong_run()
    garbage = world.orphan("data/slice/garbage")
    world.age(days=2)
    run = world.plan()
    with pytest.raises(AlarmError):
        world.run(run)
    assert garbage in world.data()
    report = run.folder.read_json("report.json")
    assert report["outcome"] == "alarm"
    (problem,) = report["problems"]
    assert all(name in problem for name in read_alarms(run.state)[0].deleted_by)


def test_later_runs_delete_nothing_until_a_person_acknowledges_and_then_they_do() -> None:
    world, _ = wrong_run()
    with pytest.raises(AlarmError):
        world.collect()
    world.age(days=1)
    with pytest.raises(AlarmError):
        world.collect()  # it has nothing to delete
    garbage = world.orphan("data/slice/garbage")
    world.age(days=2)
    with pytest.raises(AlarmError):
        world.collect()
    assert garbage in world.data()
    assert world.collect(dry_run=True).details["outcome"] == "dry_run"
    (alarm,) = say_acknowledged(world)
    assert not open_alarms(state_of(world))
    assert alarm.objects == 20
    assert world.collect().details["outcome"] == "success"
    assert garbage not in world.data()
    world.assert_readable()


def test_a_run_that_waited_deletes_nothing_when_another_one_has_alarmed_meanwhile() -> None:
    world, lost = wrong_run()
    with pytest.raises(AlarmError):
        world.collect()
    say_acknowledged(world)
    garbage = world.orphan("data/slice/garbage")
    world.age(days=2)
    run = world.marked()
    approve(run)
    alarms = {item.key for item in run.state.list_level("alarms/").objects if item.key.endswith(".json")}
    for key in alarms:  # nobody has acknowledged it after all
        run.state.put(
            key, run.state.get(key).replace(b'"acknowledged": {', b'"acknowledged": null, "was": {')
        )
    with pytest.raises(AlarmError):
        bulk_delete(run, world.runner)
    assert garbage in world.data()
    assert lost <= world.data()


def test_what_cannot_come_back_alarms_once_and_not_again_after_it_is_acknowledged() -> None:
    world, lost = wrong_run("off")
    with pytest.raises(AlarmError):
        world.collect()
    (alarm,) = read_alarms(state_of(world))
    assert alarm.outcomes == {"gone": len(lost)}
    assert not read_pins(state_of(world))[0].objects
    say_acknowledged(world)
    assert world.collect().details["outcome"] == "success"
    assert len(read_alarms(state_of(world))) == 1


def test_an_acknowledged_object_that_another_run_deletes_alarms_again() -> None:
    world, rehearsal, lost = two_servers()
    for _ in range(2):
        with blind_witnesses():
            rehearsal.collect()
        assert not lost & world.data()
        world.age(days=1)
        with pytest.raises(AlarmError):
            world.collect()
        assert lost <= world.data()
        assert len(open_alarms(state_of(world))) == 1
        say_acknowledged(world)
        world.age(days=31)  # the pin has ended
    assert len(read_alarms(state_of(world))) == 2


def test_an_object_that_was_deleted_and_is_linked_anew_alarms_if_it_is_gone_and_not_if_it_exists() -> None:
    world = undo_store("quarantine")
    world.commit("a", b"a")
    there, gone = world.orphan("data/s/there"), world.orphan("data/s/gone")
    world.collect_after(days=2)
    assert not {there, gone} & world.data()
    world.lake.objects.put(there, b"orphan")
    stage_again(world, there, "there")
    run = world.collected()
    assert summary_of(run, "check_limits").counts["exist_again_objects"] == 1
    stage_again(world, gone, "gone")
    with pytest.raises(AlarmError):
        world.collect()
    assert gone in world.data()


def test_content_uploaded_again_that_no_answer_shows_is_found_once() -> None:
    world = undo_store("quarantine")
    world.rules(30)
    world.commit("a", b"the same bytes")
    world.age(days=2)
    rehearsal = rehearsal_of(world)
    unseen = world.upload("a", b"the same bytes")  # live on main, and no change
    world.age(days=2)
    with blind_witnesses():
        rehearsal.collect()
    assert unseen not in world.data()
    assert world.served()["a"] == unseen
    run = world.plan()
    with pytest.raises(AlarmError):
        world.run(run)
    assert unseen in world.data()
    world.assert_readable()
    say_acknowledged(world)
    again = world.collected()
    assert summary_of(again, "check_limits").counts["asked_deleted_objects"] == 0


def test_questions_that_the_server_did_not_answer_are_asked_again_by_the_next_mark() -> None:
    world = undo_store("quarantine")
    world.rules(30)
    world.commit("a", b"the same bytes")
    world.age(days=2)
    rehearsal = rehearsal_of(world)
    unseen = world.upload("a", b"the same bytes")  # live on main, and no change
    world.age(days=2)
    with blind_witnesses():
        rehearsal.collect()

    def fail(name: str, _arguments: object) -> None:
        if name in ("stat", "objects_page"):
            raise UnavailableError("the server is busy")

    world.client.before = fail
    run = world.collected(dry_run=True)
    assert summary_of(run, "check_limits").counts["alarm_objects"] == 0
    world.client.before = lambda _name, _arguments: None
    with pytest.raises(AlarmError):
        world.collect()
    assert unseen in world.data()


# Expired data that is used again: brought back where that is possible, reported, and nothing stops.


@pytest.mark.parametrize("reuse", REUSES)
@pytest.mark.parametrize(
    ("way", "mode", "explained"),
    [
        ("quarantine", "clean", True),
        ("quarantine", "auto", False),
        ("versions", "clean", False),
        ("versions", "auto", True),
    ],
)
def test_expired_data_that_is_used_again_comes_back_without_an_alarm(
    way: str, reuse: str, explained: bool, mode: str
) -> None:
    settings = {} if explained else {"tuning": {"explain_ranges_max": 0}}
    world, commit, gone = expired_world(way, **settings)
    REUSES[reuse](world, commit)
    run = world.plan(mode=mode)
    report = world.run(run)
    assert report.details["outcome"] == "success"
    assert gone <= world.data()
    counts = summary_of(run, "check_limits").counts
    assert counts["reused_objects"] == counts["brought_back_objects"] == len(gone)
    assert not read_alarms(run.state)
    (pin,) = read_pins(run.state)
    assert pin.objects == len(gone)
    world.age(days=1)
    later = world.collected(mode=mode)
    assert summary_of(later, "check_limits").counts["reused_objects"] == 0
    assert gone <= world.data()


def test_what_one_run_only_reported_the_next_one_brings_back() -> None:
    world, commit, gone = expired_world()
    REUSES["branch"](world, commit)
    for _ in range(2):
        run = world.collected(dry_run=True, restore_reused=False)
        assert summary_of(run, "check_limits").counts["not_brought_back_objects"] == len(gone)
    assert not gone & world.data()
    world.collect()
    assert gone <= world.data()


def test_it_is_only_reported_where_restore_reused_is_off() -> None:
    world, commit, gone = expired_world(restore_reused=False)
    REUSES["branch"](world, commit)
    run = world.plan()
    assert world.run(run).details["outcome"] == "success"
    assert not gone & world.data()
    summary = summary_of(run, "check_limits")
    assert summary.counts["not_brought_back_objects"] == len(gone)
    assert any("restore_reused" in text for text in summary.warnings)


def test_it_is_reported_where_there_is_no_way_back() -> None:
    world, commit, gone = expired_world("off")
    REUSES["tag"](world, commit)
    run = world.plan()
    assert world.run(run).details["outcome"] == "success"
    assert summary_of(run, "check_limits").counts["not_brought_back_objects"] == len(gone)
    release_lease(run)
