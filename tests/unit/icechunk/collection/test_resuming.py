"""A run goes on by a command only where no orchestrator looks after it."""

from __future__ import annotations

import time

import pytest

from dredge.errors import AwaitingApprovalError, ConfigError, LeaseHeldError
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    check_resumable,
    is_local,
    plan_collection,
    release_lease,
    reopen_run,
    to_its_end,
)
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.runs.tasks import LocalRunner
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


def test_a_run_that_waits_holds_others_back_and_one_that_lost_its_lease_cannot_be_resumed(v1: Repo) -> None:
    (v1.folder / "chunks" / ("0" * 20)).write_bytes(b"orphan")
    time.sleep(1.1)  # the folder tells whole seconds
    run = v1.plan(approval="always")
    with pytest.raises(AwaitingApprovalError):
        to_its_end(run, LocalRunner())
    with pytest.raises(LeaseHeldError):
        make_lease(run.state).acquire("another")
    check_resumable(run)
    release_lease(run)
    make_lease(run.state).acquire("another")
    with pytest.raises(LeaseHeldError):
        check_resumable(run)


def test_run_of_an_orchestrator_is_left_to_it(v1: Repo) -> None:
    grant = make_lease(open_state(v1.uri)).acquire("dag run")
    run = Run.open(plan_collection(v1.config(), grant).run_uri)
    assert not is_local(run)
    with pytest.raises(ConfigError, match="dag run"):
        reopen_run(run.plan.run_uri)
