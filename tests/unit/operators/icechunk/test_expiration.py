"""Plan and application of an expiration."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.icechunk.expiration import (
    IcechunkExpireOperator,
    IcechunkPlanExpirationOperator,
)
from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.runs.payload import to_json
from dredge.storage import open_reader
from tests.support.icechunk import local_storage, quiet
from tests.support.icechunk_operators import NOTHING, Dated
from tests.support.icechunk_repo import Repo


@pytest.mark.parametrize(
    "settings", [{"rule": "spec_v3"}, {"estimate": "maybe"}, {"older_than": ""}, {"dry_run": "True"}]
)
def test_what_does_not_fit_is_named(settings: Any) -> None:
    operator = IcechunkPlanExpirationOperator(
        task_id="plan_expiration", storage="file:///nowhere", config=settings, aws_conn_id=None
    )
    with pytest.raises(
        ConfigError,
    ):
        operator.execute({})  # type: ignore[typeddict-item]


@pytest.fixture
def repository(tmp_path: Path) -> str:
    repo = quiet().Repository.create(local_storage(tmp_path / "repo"), spec_version=1)
    repo.writable_session("main").commit("first", allow_empty=True)
    return f"file://{tmp_path / 'repo'}"


def threshold(repository: str, older_than: str, context: dict[str, Any]) -> datetime:
    operator = IcechunkPlanExpirationOperator(
        task_id="plan_expiration", storage=repository, config={"older_than": older_than}, aws_conn_id=None
    )
    found: Any = context
    return datetime.fromisoformat(operator.execute(found)["expiration"]["threshold"])


def run_of(kind: str, end: datetime) -> dict[str, Any]:
    run = SimpleNamespace(run_type=kind)
    return {"dag_run": run, "data_interval_start": end - timedelta(days=1), "data_interval_end": end}


def test_durations_count_back_from_the_end_of_a_runs_interval(repository: str) -> None:
    """A run of a backfill expires what the run in time would have: a repository is thinned out day by day."""
    end = datetime(2026, 3, 1, tzinfo=UTC)
    for kind in ("scheduled", "backfill"):
        assert threshold(repository, "30d", run_of(kind, end)) == end - timedelta(days=30)
    assert threshold(repository, "2026-01-01", run_of("backfill", end)) == datetime(2026, 1, 1, tzinfo=UTC)


def test_an_interval_never_makes_a_run_expire_more(repository: str) -> None:
    """Runs by hand have no interval, whatever Airflow gives them; and none ends in the future."""
    now = datetime.now(UTC)
    for context in (
        {},
        run_of("manual", datetime(2026, 3, 1, tzinfo=UTC)),
        run_of("scheduled", now + timedelta(days=9)),
    ):
        found = threshold(repository, "30d", context)
        assert now - timedelta(days=30) <= found <= datetime.now(UTC) - timedelta(days=30)


def plan_of(repo: Repo, context: Any = NOTHING, **config: Any) -> dict[str, Any]:
    return IcechunkPlanExpirationOperator(
        task_id="plan_expiration", storage=repo.uri, config=config, aws_conn_id=None
    ).execute(context)


def test_a_plan_says_what_would_leave_history_and_changes_nothing(dated: Dated) -> None:
    before = dated.digest
    plan = plan_of(dated.repo, older_than=dated.when.isoformat(), estimate=False)
    assert (plan["released"], plan["edited"], plan["refs_deleted"]) == (2, 1, [])
    asked = plan["expiration"]
    assert (asked["delete_expired_branches"], asked["delete_expired_tags"]) == (False, False)
    assert (plan["window"], plan["would_free_bytes"]) == (None, None)
    assert dated.digest == before


APPLY = {"report_only": "False"}


def planned(dated: Dated, **config: Any) -> dict[str, Any]:
    config = {"older_than": dated.when.isoformat(), "estimate": False, **config}
    return IcechunkPlanExpirationOperator(
        task_id="plan_expiration", storage=dated.repo.uri, config=config, aws_conn_id=None
    ).execute(NOTHING)


def expire(dated: Dated, plan: Any, **settings: Any) -> dict[str, Any]:
    return IcechunkExpireOperator(
        task_id="expire", storage=dated.repo.uri, plan=plan, aws_conn_id=None, **settings
    ).execute(NOTHING)


def refs(dated: Dated) -> set[str]:
    history = read_history(open_reader(dated.repo.uri))
    return {*history.branches, *history.tags}


def test_what_was_planned_is_what_leaves_history(dated: Dated) -> None:
    plan = planned(dated)
    done = expire(dated, plan, **APPLY)
    assert done.pop("expiration_id")
    assert done == {"dry_run": False} | {name: plan[name] for name in ("edited", "released", "refs_deleted")}
    assert done["released"] == 2
    assert refs(dated) == {"main", "old", "first"}
    assert planned(dated)["released"] == 0


@pytest.mark.parametrize(
    ("flag", "left"),
    [("delete_expired_branches", {"main", "first"}), ("delete_expired_tags", {"main", "old"})],
)
def test_names_go_only_where_the_plan_says_so(dated: Dated, flag: str, left: set[str]) -> None:
    plan = planned(dated, **{flag: True, "keep_refs_younger_hours": 0})
    assert len(plan["refs_deleted"]) == 1
    assert expire(dated, plan, **APPLY)["refs_deleted"] == plan["refs_deleted"]
    assert refs(dated) == left


def test_a_commit_after_the_plan_matters_only_to_who_wants_exactly_that_plan(dated: Dated) -> None:
    plan = planned(dated)
    dated.repo.library.writable_session("main").commit("later", allow_empty=True)
    before = dated.digest
    with pytest.raises(RefusedError):
        expire(dated, plan, exactly=True, **APPLY)
    assert dated.digest == before
    assert expire(dated, plan, **APPLY)["released"] == 2


def test_it_works_under_the_right_that_the_run_took_and_not_beside_another(dated: Dated) -> None:
    plan, before = planned(dated), dated.digest
    lease = make_lease(open_state(dated.repo.uri))
    grant = lease.acquire("the run")
    with pytest.raises(LeaseHeldError):
        expire(dated, plan, **APPLY)
    assert dated.digest == before
    expire(dated, plan, lease=to_json(grant), **APPLY)
    lease.check(grant)


@pytest.mark.parametrize("value", ["", "None", "no"])
def test_nothing_vague_is_taken_for_permission(dated: Dated, value: str) -> None:
    plan, before = planned(dated), dated.digest
    with pytest.raises(ConfigError):
        expire(dated, plan, report_only=value)
    assert dated.digest == before
