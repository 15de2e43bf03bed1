"""The plan of a run, and who may go on with it."""

from __future__ import annotations

from dataclasses import replace

from dredge.gc.planning import resume_run
from dredge.gc.run import read_plan
from tests.support.gc import make_world


def test_a_lease_is_handed_over_to_a_run_of_the_same_holder_and_repository_only() -> None:
    plan = make_world().plan().plan
    first = plan.lease
    later = replace(first, fencing=first.fencing + 2)
    assert not resume_run(plan.run_uri, "another", later)
    assert not resume_run(plan.run_uri, plan.repository, replace(later, holder="another"))
    assert read_plan(plan.run_uri) == plan
    assert resume_run(plan.run_uri, plan.repository, later)
    assert not resume_run(plan.run_uri, plan.repository, replace(first, fencing=first.fencing + 1))
    assert read_plan(plan.run_uri) == replace(plan, lease=later)
