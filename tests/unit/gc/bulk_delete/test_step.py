"""Each round of deleting begins with a look at everything that it stands on."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import (
    FormatError,
    LeaseHeldError,
    OvertakenError,
    RefusedError,
    RejectedError,
    UnavailableError,
)
from dredge.gc.bulk_delete import step, sweep
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.subtract import SubtractOutput
from dredge.runs.tries import StepTry
from dredge.storage import CHANGED
from tests.support.approvals import approved_run, said
from tests.support.gc import Parallel, World, busy_world, deleting, stage_again, summary_of
from tests.support.gcs import Answer, GcsServer, Query
from tests.support.gcs_lakes import ORPHANS, GcsBucket, client_of, collected, contents, planted
from tests.support.gcs_state import Generation
from tests.support.lakefs_server import lakefs_server
from tests.support.looks import driver_looks
from tests.support.undo import pin_down


def _never() -> None:
    raise AssertionError("nothing is checked again where nothing is deleted")


@pytest.mark.parametrize("dry_run", [True, False])
def test_with_a_broken_chain_nothing_is_deleted_or_counted(dry_run: bool) -> None:
    """What a dry run would delete stands on the same chain as what is deleted."""
    world, kept, gone = busy_world(dry_run=dry_run)
    run = world.marked()
    summary = summary_of(run, "list_committed")
    run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))
    with pytest.raises(RefusedError, match="do not match"):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_sweep_of_objects_that_all_wait_deletes_nothing_and_reads_nothing_again(is_broken: bool) -> None:
    world, kept, gone = busy_world()
    run = world.marked(unsafe_grace_seconds=None)
    if is_broken:
        summary = summary_of(run, "list_committed")
        run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))
    with world.during("prepare_uncommitted", _never), deleting() as requests:
        if is_broken:
            with pytest.raises(RefusedError, match="do not match"):
                bulk_delete(run, world.runner)
        else:
            found = bulk_delete(run, world.runner)
            assert found.counts["kept_objects"] == summary_of(run, "subtract").counts["candidates_objects"]
            assert "rechecks" not in found.details
    assert not requests.made
    assert world.data() == kept | gone


def test_an_object_that_is_not_held_is_not_kept_as_held() -> None:
    """A sweep without a re-check may be of held objects only."""
    world, kept, gone = busy_world()
    run = world.marked()
    parts = SubtractOutput.of(summary_of(run, "subtract")).candidates
    held = CheckLimitsOutput.of(summary_of(run, "check_limits")).hold_files
    config = sweep.KeepConfig(attempt=1, fencing=1, holds=held)
    with pytest.raises(FormatError):
        run.spread(world.runner, "bulk_delete", sweep.keep_parts, config, [parts], "objects", 1)
    assert world.data() == kept | gone


@pytest.mark.parametrize(("hours", "is_swept"), [(2.9, True), (3.1, False)])
def test_an_old_mark_is_not_swept(hours: float, is_swept: bool) -> None:
    """What was staged since is found by the re-check; how long that may be trusted has an end."""
    world, kept, gone = busy_world(safety={"mark_age_hours_max": 3})
    run = world.marked()
    world.age(hours=hours)
    if is_swept:
        assert bulk_delete(run, world.runner).status == "success"
    else:
        with world.during("prepare_uncommitted", _never), pytest.raises(RefusedError, match="older than 3 h"):
            bulk_delete(run, world.runner)
    assert world.data() == (kept if is_swept else kept | gone)


@pytest.mark.parametrize("step", ["list_committed", "check_limits"])
def test_a_round_of_deleting_begins_with_an_unbroken_chain(step: str) -> None:
    """A result that is made anew while the re-check reads is not the one that these candidates stand on."""
    world, kept, gone = busy_world()
    run = world.marked()

    def do_again() -> None:
        summary = summary_of(run, step)
        run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))

    with (
        world.during("prepare_uncommitted", do_again),
        deleting() as requests,
        pytest.raises(RefusedError, match="do not match"),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_a_sweep_that_was_overtaken_while_it_checked_again_opens_no_gate() -> None:
    """Its workers would find the gate closed to them; it does not come to that."""
    world, kept, gone = busy_world()
    run = world.marked()

    def try_again() -> None:
        StepTry.claim(run.folder.writer, "bulk_delete")

    with (
        world.during("prepare_uncommitted", try_again),
        deleting() as requests,
        pytest.raises(OvertakenError),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert sum(batch.num_rows for batch in run.folder.writer.list("bulk_delete/_watch/")) == 0
    assert world.data() == kept | gone


def made_on_it(world: World) -> None:
    """Make a bare repository on the same namespace; refs that are restored to it name what was garbage."""
    world.lake.catalog.repositories.create_repository("restored", world.lake.namespace, bare=True)


def made_elsewhere(world: World) -> None:
    (ours,) = world.client.repositories()
    elsewhere = replace(ours, namespace=f"{ours.namespace}-2")
    world.client.repositories = lambda: [elsewhere]  # type: ignore[method-assign]


@pytest.mark.parametrize("make", [made_on_it, made_elsewhere])
def test_a_repository_that_came_into_the_namespace_since_the_guards_looked_stops_the_sweep(
    make: Callable[[World], None],
) -> None:
    """A run that waited for a person, or is tried again, sweeps hours after them."""
    world, kept, gone = busy_world()
    run = world.marked()
    make(world)
    asked: list[str] = []
    world.client.before = lambda name, _arguments: asked.append(name)
    with deleting() as requests, pytest.raises(RefusedError, match=r"overlaps with|is another repository"):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert asked.count("prepare_uncommitted") == 1, (
        "refused at once, and not after rounds that end at their first look"
    )
    assert world.data() == kept | gone


def test_a_repository_that_comes_into_the_namespace_during_the_sweep_stops_it() -> None:
    world, kept, gone = busy_world(safety=OFTEN)
    run = world.marked()

    def come(number: int, _keys: object) -> None:
        if number == 1:
            made_on_it(world)
            look()

    with (
        driver_looks() as look,
        deleting(before=come) as requests,
        pytest.raises(RefusedError, match="overlaps with"),
    ):
        bulk_delete(run, world.runner)
    assert len(requests.made) == 1
    assert len(gone & world.data()) > len(gone) - 3
    assert kept <= world.data()


OFTEN = {"heads_every_seconds": 0.005, "gate_every_seconds": 0}


def name_the_rest(world: World, gone: set[str], keys: Sequence[str]) -> set[str]:
    """A commit on the branch brings what is not deleted yet."""
    named = (gone & world.data()).difference(keys)
    for address in sorted(named):
        stage_again(world, address, path=address)
    world.lake.commit()
    return named


@pytest.mark.parametrize("request_number", [1, 3])
def test_what_a_branch_gets_during_the_sweep_is_not_deleted(request_number: int) -> None:
    """What its new commit names leaves the candidates, though the mark and the re-check knew nothing of it."""
    world, kept, gone = busy_world(safety=OFTEN)
    world.runner = Parallel()  # one of three tasks is done before the third request
    run = world.marked()
    named: set[str] = set()

    def come(number: int, keys: Sequence[str]) -> None:
        if number == request_number:
            named.update(name_the_rest(world, gone, keys))
            look()

    with driver_looks() as look, deleting(before=come):
        summary = bulk_delete(run, world.runner)
    assert named
    assert kept | named <= world.data()
    assert len(summary.details["rechecks"]) == 1
    assert summary.status == "success"


def test_what_is_pinned_during_the_sweep_is_not_deleted() -> None:
    world, kept, gone = busy_world(safety=OFTEN)
    run = world.marked()
    pinned: set[str] = set()

    def come(number: int, keys: Sequence[str]) -> None:
        if number == 1:
            pinned.update((gone & world.data()).difference(keys))
            pin_down(run.state, sorted(pinned), world.lake.clock())
            look()

    with driver_looks() as look, deleting(before=come):
        summary = bulk_delete(run, world.runner)
    assert pinned
    assert kept | pinned == world.data()
    assert len(summary.details["rechecks"]) == 2


def test_a_server_that_goes_away_during_the_sweep_ends_it() -> None:
    """Another round would ask a server that does not answer; what is left is for the next try."""
    world, kept, gone = busy_world(safety=OFTEN)
    run = world.marked()

    def away(name: str, _arguments: object) -> None:
        if name == "branches":
            raise UnavailableError("503")

    def come(_number: int, _keys: Sequence[str]) -> None:
        world.client.before = away
        look()

    with (
        driver_looks() as look,
        deleting(before=come) as requests,
        pytest.raises(UnavailableError, match="the sweep stopped because"),
    ):
        bulk_delete(run, world.runner)
    assert len(requests.made) == 1
    assert kept <= world.data()
    assert len(gone & world.data()) >= len(gone) - 2


@pytest.mark.parametrize("who", ["another", "another, done", "its own run, ended without it"])
def test_a_sweep_whose_lease_was_taken_while_it_checked_again_asks_no_worker(who: str) -> None:
    """Another run may have deleted, and moved the state on, also where it is done by now."""
    world, kept, gone = busy_world()
    run = world.marked()

    def take() -> None:
        if who.startswith("its own"):
            run.lease.release(run.plan.lease)
            return
        world.age(hours=3)
        grant = run.lease.acquire("another")
        if who.endswith("done"):
            run.lease.release(grant)

    with (
        world.during("prepare_uncommitted", take),
        deleting() as requests,
        pytest.raises(LeaseHeldError),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert sum(batch.num_rows for batch in run.folder.writer.list("bulk_delete/_watch/")) == 0
    assert world.data() == kept | gone


# A sweep that a person had to approve reads the guards' verdict, the chain and the answer for itself.


def test_what_a_person_approved_is_deleted() -> None:
    world, run, kept, _gone = approved_run()
    assert bulk_delete(run, world.runner).status == "success"
    assert world.data() == kept


def test_an_answer_that_is_taken_anew_while_the_re_check_reads_is_not_the_one_that_was_read() -> None:
    world, run, kept, gone = approved_run()

    def take_again() -> None:
        summary = summary_of(run, "approve")
        run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))

    with (
        world.during("prepare_uncommitted", take_again),
        deleting() as requests,
        pytest.raises(RefusedError, match="do not match"),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_a_no_that_ended_a_round_is_heard_before_anything_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, run, _kept, _gone = approved_run()
    asked: list[str] = []
    world.client.before = lambda name, _: asked.append(name)

    def stopped(*_: Any) -> Any:
        said(run, "rejected", by="eve")
        return SimpleNamespace(error=None, found="rejected", reason="the run was rejected")

    monkeypatch.setattr(step._Sweep, "_delete_round", stopped)
    with pytest.raises(RejectedError, match="eve rejected it"):
        bulk_delete(run, world.runner)
    assert asked.count("prepare_uncommitted") == 1


# On a store that can, a sweep deletes exactly what was listed: what took its place stays.


def test_a_candidate_that_was_uploaded_again_before_its_deletion_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lakeFS handed out may be uploaded to once more, and linked afterwards: no re-check sees that."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with GcsServer() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        bucket = GcsBucket(server.options, server.bucket())
        with lakefs_server(tmp_path, bucket=bucket) as lake:
            planted(lake)
            time.sleep(0.01)  # the store tells milliseconds
            kept, state = "data/odd//x", server.buckets[bucket.uri.split("/")[2]]

            def uploaded_again(_method: str, path: str, _query: Query) -> Answer | None:
                if path.startswith("/batch/"):
                    server.fault = lambda *_: None
                    state.write(Generation(f"lake/{kept}", ORPHANS[kept], {}))
                return None

            server.fault = uploaded_again
            run = collected(client_of(lake))
            left = contents(bucket)
            assert left[kept] == ORPHANS[kept]
            assert not {*ORPHANS} - {kept} & left.keys()
            groups = summary_of(run, "bulk_delete").details["groups"]
            assert [group["objects"] for group in groups if group["code"] == CHANGED] == [1]
            assert "it was overwritten" in run.folder.writer.get("report.html").decode()
