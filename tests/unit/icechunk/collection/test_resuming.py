"""A run goes on by a command only where no orchestrator looks after it."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError, LeaseHeldError
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import is_local, plan_collection, release_lease, reopen_run
from dredge.icechunk.maintenance import make_lease, open_state
from tests.support.icechunk_repo import Repo


def test_run_that_took_its_lease_itself_goes_on_under_a_new_one(v1: Repo) -> None:
    run = v1.plan()
    assert is_local(run)
    release_lease(run)
    again = reopen_run(run.plan.run_uri)
    assert again.plan.run_id == run.plan.run_id
    assert again.plan.lease.fencing == run.plan.lease.fencing + 1
    with pytest.raises(LeaseHeldError):
        make_lease(again.state).acquire("another")


def test_run_of_an_orchestrator_is_left_to_it(v1: Repo) -> None:
    grant = make_lease(open_state(v1.uri)).acquire("dag run")
    run = Run.open(plan_collection(v1.config(), grant).run_uri)
    assert not is_local(run)
    with pytest.raises(ConfigError, match="a run of dag run"):
        reopen_run(run.plan.run_uri)
