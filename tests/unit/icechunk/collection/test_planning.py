"""The plan of a collection, and the right to work on the repository."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection import planning
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.planning import _checked_store_time, _cutoff, plan_collection, resume_run
from dredge.icechunk.collection.run import Run
from dredge.inventory.manifest import Inventory
from dredge.runs.payload import to_json
from dredge.storage import open_writer
from tests.support.icechunk_repo import Repo
from tests.support.memory_store import memory_store


def test_plan_holds_no_secrets_and_round_trips(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "correct-horse")
    plan = plan_collection(repo.config(max_delete_percent=50.0))
    run = Run.open(plan.run_uri)
    assert run.plan == plan
    assert "correct-horse" not in json.dumps(to_json(plan))


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


NOW = datetime(2026, 5, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("begun_hours_ago", "cutoff_hours_ago"), [(None, 168), (200, 200), (168, 168), (100, 168)]
)
def test_cutoff_is_the_minimum_age_ago_or_the_beginning_of_an_older_inventory(
    begun_hours_ago: float | None, cutoff_hours_ago: float
) -> None:
    config = CollectConfig(uri="x")
    begun = None if begun_hours_ago is None else NOW - begun_hours_ago * HOUR
    inventory = Inventory(uri="y", created_at=begun, digest="")
    assert _cutoff(NOW, config, inventory) == NOW - cutoff_hours_ago * HOUR
    assert _cutoff(NOW, config, None) == NOW - 168 * HOUR


@pytest.mark.parametrize(("ahead", "is_refused"), [(300, False), (-300, False), (301, True), (-301, True)])
def test_clocks_may_differ_by_so_much_and_no_more(ahead: float, is_refused: bool) -> None:
    memory_store("test-planning-clocks").clock = lambda: NOW
    state = open_writer("memory://test-planning-clocks/repo/_dredge")
    here = NOW - timedelta(seconds=ahead)
    if is_refused:
        with pytest.raises(RefusedError, match="clock differs"):
            _checked_store_time(state, lambda: here, 300)
    else:
        assert _checked_store_time(state, lambda: here, 300) == NOW


def test_store_that_keeps_no_conditions_is_refused_before_anything_is_held(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RefusedError("no conditions")

    lease = v1.folder / "_dredge" / "lease.json"
    before = lease.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(planning, "demand_conditions", refused)
        with pytest.raises(RefusedError, match="no conditions"):
            plan_collection(v1.config())
    assert lease.read_bytes() == before
    plan_collection(v1.config())
    assert lease.read_bytes() != before
