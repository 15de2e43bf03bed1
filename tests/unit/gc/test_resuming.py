"""A local run that waits or failed goes on, unless another one came in between."""

from dataclasses import replace

import pytest
from msgspec import structs

from dredge.errors import (
    AwaitingApprovalError,
    ConfigError,
    LeaseHeldError,
    RefusedError,
    RejectedError,
)
from dredge.gc.config import GCConfig
from dredge.gc.planning import acquire_lease, plan_run
from dredge.gc.run import Run, read_plan
from dredge.gc.steps import resume
from dredge.runs.payload import StepSummary
from dredge.runs.run import check_resumable, resume_run
from tests.support.approvals import said
from tests.support.gc import World, busy_world, make_world


def ended(world: World, **settings: object) -> Run:
    run = world.plan(**settings)
    with pytest.raises(AwaitingApprovalError):
        world.run(run)
    return run


def again(world: World, run: Run) -> StepSummary:
    return resume(run.plan.run_uri, world.runner, world.client, None, world.lake.clock)


def test_an_approved_run_goes_on_where_it_stopped() -> None:
    world, kept, _ = busy_world(max_delete_objects=0)
    run = ended(world)
    listed = run.folder.writer.stat("slice_listing/_SUCCESS.json")
    world.age(hours=1)
    said(run)
    summary = again(world, run)
    assert (summary.details["outcome"], summary.counts["deleted_objects"]) == ("success", 7)
    assert world.data() == kept
    assert run.folder.writer.stat("slice_listing/_SUCCESS.json").etag == listed.etag


@pytest.mark.parametrize("hours", [0, 3.9])
def test_a_run_that_waits_holds_others_back_until_its_question_expires(hours: float) -> None:
    """They could complete, and then nobody could go on with what was approved."""
    world, kept, gone = busy_world(max_delete_objects=0)
    run = ended(world, approval_hours=4)
    world.age(hours=hours)
    with pytest.raises(LeaseHeldError, match=run.plan.run_id):
        world.collect(max_delete_objects=None)
    assert world.data() == kept | gone
    said(run)
    again(world, run)
    assert world.data() == kept


def test_a_run_that_was_rejected_gives_its_lease_back() -> None:
    world, kept, _ = busy_world(max_delete_objects=0)
    run = ended(world)
    said(run, "rejected")
    with pytest.raises(RejectedError):
        again(world, run)
    world.collect(max_delete_objects=None)
    assert world.data() == kept


def test_what_resume_would_refuse_is_refused_before() -> None:
    world, _, _ = busy_world(max_delete_objects=0)
    run = ended(world)
    check_resumable(run)
    run.lease.release(run.plan.lease)
    grant = acquire_lease(GCConfig(repository=world.lake.repository), "somebody else", world.client)
    with pytest.raises(LeaseHeldError):
        check_resumable(run)
    run.lease.release(grant)
    check_resumable(run)
    world.collect(max_delete_objects=None)
    with pytest.raises(RefusedError):
        check_resumable(run)


def test_a_run_between_its_end_and_its_approval_ends_it() -> None:
    world, kept, gone = busy_world(max_delete_objects=0)
    run = ended(world)
    said(run)
    run.lease.release(run.plan.lease)  # as where it could not be prolonged
    late = world.orphan("data/late")
    world.age(hours=1)
    world.collect(max_delete_objects=None)
    with pytest.raises(RefusedError):
        again(world, run)
    assert world.data() == kept | {late}
    assert not world.data() & gone
    world.collect(max_delete_objects=None)  # it gave its lease back


def test_a_run_of_an_orchestrator_is_left_to_it() -> None:
    world, kept, gone = busy_world(max_delete_objects=0)
    config = GCConfig(repository=world.lake.repository, dry_run=False, max_delete_objects=0)
    grant = acquire_lease(config, "lakefs_gc manual__1", world.client)
    plan = plan_run(config, grant, world.client, None, world.lake.clock)
    with pytest.raises(ConfigError, match="manual__1"):
        resume(plan.run_uri, world.runner, world.client, None, world.lake.clock)
    assert world.data() == kept | gone


def test_a_lease_is_handed_over_to_a_run_of_the_same_holder_and_repository_only() -> None:
    plan = make_world().plan().plan
    first = plan.lease
    later = structs.replace(first, fencing=first.fencing + 2)
    assert not resume_run(Run.open(plan.run_uri), "another", later)
    assert not resume_run(Run.open(plan.run_uri), plan.repository, structs.replace(later, holder="another"))
    assert read_plan(plan.run_uri) == plan
    assert resume_run(Run.open(plan.run_uri), plan.repository, later)
    assert not resume_run(
        Run.open(plan.run_uri), plan.repository, structs.replace(first, fencing=first.fencing + 1)
    )
    assert read_plan(plan.run_uri) == replace(plan, lease=later)
