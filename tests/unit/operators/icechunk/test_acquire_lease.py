"""Rights that tasks of an Icechunk run take, wait for, hand over and give back."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from dredge.errors import DredgeError
from dredge.icechunk.collection.steps import Run
from tests.support.icechunk import objects
from tests.support.icechunk_operators import Dated, acquire, plan, release


def test_a_second_run_waits_until_the_first_has_given_its_right_back(dated: Dated) -> None:
    first = acquire(dated.repo, "manual__1")
    assert (first["storage"], first["spec_version"]) == (dated.repo.uri, 1)
    with pytest.raises(AirflowRescheduleException):
        acquire(dated.repo, "manual__2")
    assert release(dated.repo, first) == {"storage": dated.repo.uri, "released": first["fencing"]}
    assert acquire(dated.repo, "manual__2")["fencing"] > first["fencing"]


def test_cleared_tasks_go_on_with_the_plan_under_a_new_right(dated: Dated) -> None:
    lease = acquire(dated.repo, "manual__1")
    run_uri = plan(dated.repo, lease)["run_uri"]
    release(dated.repo, lease)
    again = acquire(dated.repo, "manual__1", run_uri)
    run = Run.open(run_uri)
    assert run.plan.lease.fencing == again["fencing"] > lease["fencing"]
    run.lease.check(run.plan.lease)


def test_another_run_cannot_take_over_a_plan(dated: Dated) -> None:
    lease = acquire(dated.repo, "manual__1")
    run_uri = plan(dated.repo, lease)["run_uri"]
    release(dated.repo, lease)
    acquire(dated.repo, "manual__2", run_uri)
    assert Run.open(run_uri).plan.lease.fencing == lease["fencing"]


def test_a_plan_of_nobody_waits_for_no_right_that_it_was_given(dated: Dated) -> None:
    """A plan without a lease of its run takes the right itself: beside another run there is none."""
    before = objects(dated.repo.folder)
    acquire(dated.repo, "manual__1")
    with pytest.raises(DredgeError):
        plan(dated.repo)
    assert objects(dated.repo.folder) == before
