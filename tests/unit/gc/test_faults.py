"""Faults: whatever breaks, nothing live goes, the message says what to do, and a retry finishes the work."""

from datetime import timedelta

import pytest

from dredge.errors import ConfigError, PartialError, RefusedError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run
from dredge.gc.steps import Run, bulk_delete, run_steps
from dredge.runs.tasks import LocalRunner
from dredge.storage import DeleteOutcome
from tests.support.gc import busy_world, deleting
from tests.support.killing import kept_at_every_write
from tests.support.memory_store import memory_store


@pytest.mark.parametrize("part", range(3))
def test_a_run_killed_before_any_write_goes_on_and_ends_the_same(part: int) -> None:
    world, kept, gone = busy_world()
    context = world.plan()
    store = memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])
    with kept_at_every_write(store) as states:
        run_steps(context, LocalRunner())
    assert len(states) > 40
    assert world.data() == kept
    for number in range(part, len(states), 3):
        store.objects = dict(states[number])
        assert kept <= world.data(), f"killed at write {number}"
        again = Run.open(context.plan.run_uri, None, world.client, world.lake.clock)
        report = run_steps(again, LocalRunner())
        assert world.data() == kept, f"killed at write {number}"
        # An object whose request was answered but not written down is asked for again, and is gone already.
        done = report.counts["deleted_objects"] + report.counts["missing_objects"]
        assert done == len(gone)
        assert report.details["outcome"] == "success"


@pytest.mark.parametrize("code", ["AccessDenied", "SlowDown"])
def test_objects_that_cannot_be_deleted_make_the_run_partial_and_are_tried_again(code: str) -> None:
    """Vendor: six of ten denied, exit 0, "success", reported as deleted."""
    world, kept, gone = busy_world()
    denied = {key for key in gone if key.startswith("data/slice0/")}

    def answer(key: str) -> DeleteOutcome | None:
        return DeleteOutcome(key, "failed", code, "no") if key in denied else None

    context = world.plan()
    expected = PartialError if code == "AccessDenied" else UnavailableError
    with deleting(answer=answer), pytest.raises(expected):
        world.run(context)
    assert world.data() == kept | denied
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "partial"
    assert report["counts"]["deleted_objects"] == len(gone - denied)
    assert report["counts"]["failed_objects"] == len(denied)
    assert context.folder.read_json("summary.json")["success"] is False
    assert {row["code"] for row in report["failures"]} == {code}
    lines = context.folder.writer.get("deleted.text/part-00000.txt").decode().splitlines()
    for number in range(1, len(context.folder.writer.list_level("deleted.text/").objects)):
        lines += context.folder.writer.get(f"deleted.text/part-{number:05d}.txt").decode().splitlines()
    assert sorted(lines) == sorted(gone - denied)

    world.age(minutes=5)
    with deleting() as requests:
        run_steps(Run.open(context.plan.run_uri, None, world.client, world.lake.clock), LocalRunner())
    assert {key for keys in requests.made for key in keys} == denied
    assert world.data() == kept
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert report["counts"]["deleted_objects"] == len(gone)
    assert context.folder.read_json("summary.json")["num_deleted_objects"] == len(gone)


def test_credentials_that_may_delete_nothing_leave_everything_and_say_so() -> None:
    world, kept, gone = busy_world()
    context = world.plan()
    with (
        deleting(answer=lambda key: DeleteOutcome(key, "failed", "AccessDenied", "no")),
        pytest.raises(ConfigError),
    ):
        world.run(context)
    assert world.data() == kept | gone


def test_a_key_pair_that_ends_before_anything_is_deleted_is_wrong_input() -> None:
    world, kept, gone = busy_world()
    context = world.marked()

    def ends() -> None:
        raise ConfigError("the key pair has expired")

    with world.during("prepare_uncommitted", ends), pytest.raises(ConfigError, match=r"expired$"):
        world.run(context)
    assert world.data() == kept | gone


def test_names_that_the_store_cannot_delete_are_kept_and_told() -> None:
    world, kept, gone = busy_world()
    odd = sorted(gone)[0]

    def answer(key: str) -> DeleteOutcome | None:
        return DeleteOutcome(key, "not_addressable") if key == odd else None

    with deleting(answer=answer):
        report = world.collect()
    assert world.data() == kept | {odd}
    assert report.details["outcome"] == "success"


def test_a_store_that_breaks_while_deleting_is_reported_and_the_rest_waits() -> None:
    world, kept, gone = busy_world()

    def breaks(number: int, _keys: object) -> None:
        if number == 2:
            raise UnavailableError("the store is down")

    context = world.plan()
    with deleting(before=breaks), pytest.raises(UnavailableError, match="down"):
        world.run(context)
    assert len(world.data() - kept) == len(gone) - 2
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "partial"
    assert report["counts"]["deleted_objects"] == 2
    assert {"kind": "not tried", "objects": len(gone) - 2}.items() <= report["rows"][-1].items()


@pytest.mark.parametrize("ahead", [301, -301])
def test_clocks_that_differ_stop_the_run(ahead: float) -> None:
    world, kept, gone = busy_world()

    def clock():  # type: ignore[no-untyped-def]
        return world.lake.clock() - timedelta(seconds=ahead)

    with pytest.raises(RefusedError, match="clock"):
        plan_run(GCConfig(repository="lake"), None, world.client, None, clock)
    assert world.data() == kept | gone


def test_another_collectors_run_in_the_same_place_stops_this_one() -> None:
    from dredge.xid import new_descending_xid

    world, kept, gone = busy_world()
    context = world.plan()
    world.age(seconds=2)
    run_id = new_descending_xid(world.lake.clock())
    world.lake.objects.put(f"_lakefs/retention/gc/unified/{run_id}/summary.json", b"{}")
    with pytest.raises(RefusedError, match="no_other_collector"):
        world.run(context)
    assert world.data() == kept | gone


def test_when_nobody_looks_at_branches_any_more_workers_stop_by_themselves() -> None:
    """A driver that was killed or hangs writes nothing; its workers must not go on for long."""
    world, kept, gone = busy_world(safety={"heads_every_seconds": 1000, "gate_every_seconds": 0})
    context = world.marked()

    def hang(number: int, _keys: object) -> None:
        if number == 1:
            world.age(seconds=61)

    with deleting(before=hang) as requests, pytest.raises(UnavailableError):
        bulk_delete(context, LocalRunner())
    assert len(requests.made) == 1
    assert kept < world.data()
    bulk_delete(context, LocalRunner())
    assert world.data() == kept
    assert not gone & world.data()


@pytest.mark.parametrize("expired", [False, True])
def test_a_branch_that_moved_between_check_and_sweep_is_noticed_before_the_first_request(
    expired: bool,
) -> None:
    """A new commit is followed; a branch at an expired one has everything checked again."""
    world, _, gone = busy_world(safety={"heads_every_seconds": 1000})
    world.age(days=40)
    commit_id = world.client.branches(world.lake.repository)[0].commit_id
    world.commit("newer", b"newer")
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "a1")
    world.lake.commit()
    world.age(days=40)
    world.commit("newest", b"newest")
    world.age(days=2)
    context = world.marked()
    calls: list[str] = []

    def before(name: str, _arguments: object) -> None:
        calls.append(name)
        # The first look: the owner was looked at, which comes after the re-check.
        if name == "branches" and "metadata" in calls and calls.count("moved") == 0:
            calls.append("moved")
            if expired:
                world.lake.catalog.branches.create_branch(world.lake.repository, "old", commit_id)
            else:
                world.commit("new", b"new")

    world.client.before = before
    with deleting() as requests:
        bulk_delete(context, LocalRunner())
    ledger = context.folder.read_summary("bulk_delete")
    assert ledger is not None
    assert len(ledger.details["rechecks"]) == (2 if expired else 1)
    assert {key for keys in requests.made for key in keys} >= gone
    if expired:
        world.assert_readable("old")
    world.assert_readable()
