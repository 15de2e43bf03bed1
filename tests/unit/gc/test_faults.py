"""Faults: whatever breaks, nothing live goes, the message says what to do, and a retry finishes the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError, LeaseHeldError, RefusedError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.index import CommittedIndex
from dredge.gc.planning import acquire_lease, plan_run, release_lease
from dredge.gc.steps import Context, bulk_delete, run_steps, save_report, subtract, verify
from dredge.runs.folder import parquet_bytes, read_parquet
from dredge.runs.tasks import LocalRunner
from dredge.storage import DeleteOutcome, MemoryStore, open_deleter, open_writer
from dredge.storage.memory import MemoryDeleter
from tests.support.gc import World, deleting, make_world, summary_of


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """Kill the process right before one of its writes and deletes; gives how many there were."""
    count = [0]
    honest_write, honest_delete = MemoryStore.write, MemoryDeleter.delete

    def tick() -> None:
        count[0] += 1
        if count[0] == number:
            raise Killed

    def write(self, *arguments, **more):  # type: ignore[no-untyped-def]
        tick()
        return honest_write(self, *arguments, **more)

    def delete(self, *arguments):  # type: ignore[no-untyped-def]
        tick()
        done = honest_delete(self, *arguments)
        tick()  # and right after it, before anybody wrote down what happened
        return done

    MemoryStore.write, MemoryDeleter.delete = write, delete  # type: ignore[method-assign]
    try:
        yield count
    finally:
        MemoryStore.write, MemoryDeleter.delete = honest_write, honest_delete  # type: ignore[method-assign]


def busy_world(**settings: object) -> tuple[World, set[str], set[str]]:
    """Some of everything: what must stay and what must go."""
    world = make_world(tuning={"delete_keys": 2, "candidate_rows": 3}, **settings)
    world.rules(30)
    kept = {world.upload(f"a{number}", b"%d" % number) for number in range(4)}
    world.lake.commit()
    kept |= {world.upload(f"s{number}", b"staged %d" % number) for number in range(3)}
    kept.add(world.upload("a0", b"0"))  # the same bytes again
    gone = {world.orphan(f"data/slice{number % 2}/orphan{number}", b"x%d" % number) for number in range(7)}
    world.age(days=2)
    return world, kept, gone


def test_a_run_killed_before_any_write_goes_on_and_ends_the_same() -> None:
    world, kept, gone = busy_world()
    context = world.plan()
    with killed_at(-1) as count:
        world.run(context)
    total = count[0]
    assert total > 40
    assert world.data() == kept
    for number in range(1, total + 1):
        world, kept, gone = busy_world()
        context = world.plan()
        with killed_at(number), pytest.raises(Killed):
            world.run(context)
        assert kept <= world.data(), f"killed at write {number}"
        again = Context.open(context.plan.run_uri, None, world.client, world.lake.clock)
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
    expected = ConfigError if code == "AccessDenied" else UnavailableError
    with deleting(answer=answer), pytest.raises(expected, match="only these are tried again"):
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
        run_steps(Context.open(context.plan.run_uri, None, world.client, world.lake.clock), LocalRunner())
    assert {key for keys in requests.made for key in keys} == denied
    assert world.data() == kept
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert report["counts"]["deleted_objects"] == len(gone)
    assert context.folder.read_json("summary.json")["num_deleted_objects"] == len(gone)


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
    with deleting(before=breaks), pytest.raises(UnavailableError, match="the store is down"):
        world.run(context)
    assert len(world.data() - kept) == len(gone) - 2
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "partial"
    assert report["counts"]["deleted_objects"] == 2
    assert {"kind": "not tried", "objects": len(gone) - 2}.items() <= report["rows"][-1].items()


def test_what_was_reported_deleted_but_is_still_listed_fails_the_run() -> None:
    world, kept, gone = busy_world()
    stubborn = sorted(gone)[0]

    def answer(key: str) -> DeleteOutcome | None:
        return DeleteOutcome(key, "deleted") if key == stubborn else None

    context = world.plan()
    with deleting(answer=answer), pytest.raises(FormatError, match="still listed"):
        world.run(context)
    assert kept <= world.data()
    assert context.folder.read_json("report.json")["outcome"] == "failed"


def test_a_living_object_that_was_deleted_is_shouted_about() -> None:
    world, _, gone = busy_world()
    context = world.plan()
    victim = sorted(gone)[0]

    def resurrect(number: int, keys: object) -> None:
        # After everything was checked: nothing can prevent this, but it must not go unnoticed.
        if number == 1:
            world.lake.catalog.stage_object(
                "lake",
                "main",
                "again",
                physical_address=f"{world.lake.namespace}/{victim}",
                checksum="c",
                size_bytes=2,
            )

    with deleting(before=resurrect), pytest.raises(FormatError, match="DELETED OBJECTS THAT LIVE"):
        world.run(context)


def test_a_living_object_that_was_missing_before_is_a_warning() -> None:
    world, _, _ = busy_world()
    full = world.lake.catalog.get_physical_address("lake", "main", "never-uploaded")
    world.lake.catalog.link_physical_address(
        "lake", "main", "never-uploaded", physical_address=full, checksum="c", size_bytes=1
    )
    context = world.plan()
    world.run(context)
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert any("this run did not delete them" in text for text in report["warnings"])


def test_two_runs_at_once_are_one_run_and_one_refusal() -> None:
    world, _, _ = busy_world()
    first = world.plan()
    with pytest.raises(LeaseHeldError, match="works on this repository until"):
        world.plan()
    release_lease(first)
    world.age(seconds=1)
    release_lease(world.plan())


def test_a_lease_whose_holder_died_is_taken_over_after_its_expiry_and_the_old_holder_is_fenced_off() -> None:
    world, kept, gone = busy_world()
    late = world.plan()
    world.mark(late)
    world.age(hours=1, seconds=1)
    new = world.plan()
    assert new.plan.lease.fencing == late.plan.lease.fencing + 1
    with pytest.raises(LeaseHeldError, match="lost"):
        bulk_delete(late, LocalRunner())
    open_deleter(late.folder.uri).delete(["candidates/_SUCCESS.json"])
    with pytest.raises(LeaseHeldError, match="lost"):
        subtract(late, LocalRunner())
    assert kept | gone <= world.data()
    world.run(new)
    assert world.data() == kept


def test_a_lease_that_is_lost_while_deleting_stops_before_the_next_request() -> None:
    world, kept, gone = busy_world(safety={"gate_every_seconds": 0})
    context = world.plan()

    def overtake(number: int, _keys: object) -> None:
        if number == 1:
            context.state.put(
                "lease.json",
                b'{"holder": "another", "fencing": 99, "expires_at": "2100-01-01T00:00:00+00:00"}',
            )

    with deleting(before=overtake) as requests, pytest.raises(LeaseHeldError):
        world.run(context)
    assert len(requests.made) == 1
    assert len(world.data() - kept) == len(gone) - 2


def test_a_lease_that_expires_while_deleting_stops_before_the_next_request() -> None:
    world, _, _ = busy_world(safety={"gate_every_seconds": 0})
    context = world.plan()

    def sleep(number: int, _keys: object) -> None:
        world.age(hours=2)

    with deleting(before=sleep) as requests, pytest.raises(LeaseHeldError, match="not renewed"):
        world.run(context)
    assert len(requests.made) == 1


def test_a_holder_that_asks_again_fences_off_its_earlier_attempt() -> None:
    world, _, _ = busy_world()
    config = GCConfig(repository="lake", dry_run=False)
    first = acquire_lease(config, "dag run 1", world.client)
    second = acquire_lease(config, "dag run 1", world.client)
    assert second.fencing == first.fencing + 1
    with pytest.raises(LeaseHeldError):
        plan_run(config, first, world.client, None, world.lake.clock)
    plan_run(config, second, world.client, None, world.lake.clock)


@pytest.mark.parametrize("ahead", [301, -301])
def test_clocks_that_differ_stop_the_run(ahead: float) -> None:
    world, kept, gone = busy_world()

    def clock():  # type: ignore[no-untyped-def]
        return world.lake.clock() - timedelta(seconds=ahead)

    with pytest.raises(RefusedError, match="clock"):
        plan_run(GCConfig(repository="lake"), None, world.client, None, clock)
    assert world.data() == kept | gone


def test_a_small_difference_of_clocks_is_normal() -> None:
    world, _, _ = busy_world()

    def clock():  # type: ignore[no-untyped-def]
        return world.lake.clock() - timedelta(seconds=299)

    plan = plan_run(GCConfig(repository="lake"), None, world.client, None, clock)
    assert plan.store_ahead_seconds == pytest.approx(299)


def test_an_old_mark_is_not_swept() -> None:
    world, kept, gone = busy_world(safety={"lease_seconds": 100 * 3600})
    context = world.plan()
    world.mark(context)
    world.age(hours=12, seconds=1)
    with pytest.raises(RefusedError, match="mark older than 12 h"):
        bulk_delete(context, LocalRunner())
    assert world.data() == kept | gone


def test_branches_that_never_stand_still_while_deleting_stop_the_sweep() -> None:
    world, kept, gone = busy_world(
        safety={"heads_every_seconds": 0.005, "gate_every_seconds": 0, "recheck_rounds_max": 2}
    )
    context = world.plan()
    world.mark(context)

    def commit(number: int, _keys: object) -> None:
        import time

        world.upload(f"new{number}", b"new %d" % number)
        world.lake.commit()
        time.sleep(0.2)

    with deleting(before=commit), pytest.raises(RefusedError, match="branches moved during each of 2 rounds"):
        bulk_delete(context, LocalRunner())
    save_report(context)
    assert kept <= world.data()
    assert world.data() & gone
    assert context.folder.read_json("report.json")["outcome"] == "partial"


def test_when_heads_cannot_be_looked_at_the_sweep_stops() -> None:
    world, kept, gone = busy_world(safety={"heads_every_seconds": 0.005, "gate_every_seconds": 0})
    context = world.plan()
    world.mark(context)

    def lose_server(number: int, _keys: object) -> None:
        import time

        def down(_name: str, _arguments: object) -> None:
            raise UnavailableError("lakeFS is down")

        world.client.before = down
        time.sleep(0.2)

    with (
        deleting(before=lose_server) as requests,
        pytest.raises(UnavailableError, match="could not be looked at"),
    ):
        bulk_delete(context, LocalRunner())
    assert len(requests.made) == 1
    assert len(world.data() - kept) == len(gone) - 2


def test_candidates_that_changed_after_the_guards_are_not_swept() -> None:
    world, kept, gone = busy_world()
    context = world.plan()
    world.mark(context)
    name = next(part.name for part in summary_of(context, "candidates").parts if "/part-" in part.name)
    data = context.folder.writer.get(name)
    context.folder.writer.put(name, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FormatError, match="not those that were written"):
        bulk_delete(context, LocalRunner())
    assert world.data() == kept | gone


@pytest.mark.parametrize("step", ["listing", "staged", "committed", "candidates", "guard"])
def test_an_edited_summary_is_not_believed(step: str) -> None:
    world, kept, gone = busy_world()
    context = world.plan()
    world.mark(context)
    value = context.folder.read_json(f"{step}/_SUCCESS.json")
    value["counts"]["edited"] = 1
    context.folder.write_json(f"{step}/_SUCCESS.json", value)
    with pytest.raises(FormatError, match="its own digest"):
        world.run(context)
    assert world.data() == kept | gone


@pytest.mark.parametrize("kind", ["listing/part-", "staged/hashes-", "staged/addresses-", "committed/live-"])
def test_a_part_that_is_gone_or_damaged_stops_the_run(kind: str) -> None:
    for damage in ("gone", "short"):
        world, kept, gone = busy_world()
        context = world.plan()
        world.mark(context)
        name = next(
            part.name
            for part in summary_of(context, kind.partition("/")[0]).parts
            if part.name.startswith(kind)
        )
        if damage == "gone":
            open_deleter(context.folder.uri).delete([name])
        else:
            context.folder.writer.put(name, context.folder.writer.get(name)[:-8])
        fresh = Context.open(context.plan.run_uri, None, world.client, world.lake.clock)
        open_deleter(context.folder.uri).delete(
            ["committed/_SUCCESS.json", "candidates/_SUCCESS.json", "guard/_SUCCESS.json"]
            if not kind.startswith("committed")
            else ["candidates/_SUCCESS.json", "guard/_SUCCESS.json"]
        )
        if kind == "staged/addresses-":
            # Nothing but the report's sample reads these again.
            run_steps_expecting(fresh, FormatError, at="verify")
            assert world.data() == kept
            continue
        with pytest.raises(FormatError):
            run_steps(fresh, LocalRunner())
        assert world.data() == kept | gone


def run_steps_expecting(context: Context, error: type[Exception], at: str) -> None:
    """Do the steps; the one named must fail."""
    with pytest.raises(error):
        run_steps(context, LocalRunner())
    failure = context.folder.read_failure(at)
    assert failure is not None


def test_a_damaged_part_of_the_index_is_rebuilt_from_its_ranges() -> None:
    for damage in ("gone", "flipped", "manifest"):
        world, kept, _ = busy_world()
        world.collect()
        assert world.data() == kept
        orphan = world.orphan("data/slice/later")
        world.age(days=2)
        keys = [
            key
            for key in world.lake.keys("_lakefs/retention/gc/dredge/index/")
            if "addresses" in key or damage == "manifest"
        ]
        chosen = next(key for key in keys if ("manifests" in key) == (damage == "manifest"))
        data = world.lake.objects.get(chosen)
        if damage == "gone":
            open_deleter(world.lake.namespace).delete([chosen])
        else:
            world.lake.objects.put(chosen, data[:100] + bytes([data[100] ^ 1]) + data[101:])
        context = world.plan()
        world.run(context)
        assert world.data() == kept
        assert orphan not in world.data()
        counts = summary_of(context, "committed").counts
        assert counts["index_parts_rebuilt"] == (0 if damage == "manifest" else 1)
        assert counts["ranges_decoded"] == 1
        # And the time after, the new part is used.
        world.age(hours=1)
        context = world.plan()
        world.run(context)
        assert summary_of(context, "committed").counts["ranges_decoded"] == 0


def test_an_object_without_a_time_stops_the_run() -> None:
    from datetime import UTC, datetime

    world, kept, gone = busy_world()
    store = next(iter([world.lake.namespace.removeprefix("memory://").partition("/")]))
    from dredge.storage import memory_store

    memory_store(store[0]).write(f"{store[2]}/data/timeless", b"x", datetime.fromtimestamp(0, UTC))
    with pytest.raises(RefusedError, match="no time"):
        world.collect()
    assert kept | gone <= world.data()


def test_another_collectors_run_in_the_same_place_stops_this_one() -> None:
    from dredge.graveler.xid import new_descending_xid

    world, kept, gone = busy_world()
    context = world.plan()
    world.age(seconds=2)
    run_id = new_descending_xid(world.lake.clock())
    world.lake.objects.put(f"_lakefs/retention/gc/unified/{run_id}/summary.json", b"{}")
    with pytest.raises(RefusedError, match="no_other_collector"):
        world.run(context)
    assert world.data() == kept | gone


def test_an_old_run_of_another_collector_does_not_matter() -> None:
    from dredge.graveler.xid import new_descending_xid

    world, kept, _ = busy_world()
    run_id = new_descending_xid(world.lake.clock() - timedelta(hours=3))
    world.lake.objects.put(f"_lakefs/retention/gc/unified/{run_id}/summary.json", b"{}")
    world.collect()
    assert world.data() == kept


def test_verify_runs_again_by_itself() -> None:
    world, _, gone = busy_world()
    context = world.plan()
    world.run(context)
    assert verify(context).counts["checked_objects"] == len(gone)


def test_an_index_made_for_another_namespace_is_not_believed() -> None:
    """A bucket that was copied brings its index along, but full addresses mean another place there."""
    world, kept, _ = busy_world()
    world.collect()
    copied = "memory://copied/lake"
    for key in world.lake.keys(""):
        open_writer(copied).put(key, world.lake.objects.get(key))
    state = open_writer(f"{copied}/_lakefs/retention/gc/dredge")
    assert CommittedIndex.load(state, world.lake.namespace).places
    assert not CommittedIndex.load(state, copied).places
    assert world.data() == kept


def test_a_manifest_of_the_index_that_was_edited_is_not_believed() -> None:
    world, _, _ = busy_world()
    world.collect()
    state = open_writer(f"{world.lake.namespace}/_lakefs/retention/gc/dredge")
    name = state.list_level("index/manifests/").objects[0].key
    table = read_parquet(state.get(name))
    state.put(name, parquet_bytes(table.set_column(1, "count", pa.array([9] * table.num_rows))))
    assert not CommittedIndex.load(state, world.lake.namespace).places
