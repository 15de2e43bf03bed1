"""The plan of a collection, and the right to work on the repository."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import LeaseHeldError, RefusedError
from dredge.icechunk.collection.planning import plan_collection, resume_run
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo


def test_another_run_holds_the_repository(repo: Repo) -> None:
    plan_collection(repo.config())
    before = objects(repo.folder)
    with pytest.raises(LeaseHeldError):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_plan_holds_no_secrets_and_round_trips(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "correct-horse")
    plan = plan_collection(repo.config(max_delete_percent=50.0))
    run = Run.open(plan.run_uri)
    assert run.plan == plan
    assert "correct-horse" not in json.dumps(plan.to_json())


def test_machine_with_a_wrong_clock_is_refused(repo: Repo) -> None:
    with pytest.raises(RefusedError, match="clock differs"):
        plan_collection(repo.config(), clock=lambda: datetime.now(UTC) - timedelta(hours=1))


def test_lease_is_handed_over_to_a_run_of_the_same_holder_and_repository_only(v1: Repo) -> None:
    plan = plan_collection(v1.config())
    first = plan.lease
    later = replace(first, fencing=first.fencing + 2)
    assert not resume_run(plan.run_uri, f"{plan.uri}-2", later)
    assert not resume_run(plan.run_uri, plan.uri, replace(later, holder="another"))
    assert Run.open(plan.run_uri).plan == plan
    assert resume_run(plan.run_uri, plan.uri, later)
    assert not resume_run(plan.run_uri, plan.uri, replace(first, fencing=first.fencing + 1))
    assert Run.open(plan.run_uri).plan == replace(plan, lease=later)
