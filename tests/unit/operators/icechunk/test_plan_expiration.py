"""The step that plans an expiration: wrong settings are refused before the repository is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.icechunk.plan_expiration import IcechunkPlanExpirationOperator
from dredge.errors import ConfigError
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


def planned(repo: Repo, context: Any = NOTHING, **config: Any) -> dict[str, Any]:
    return IcechunkPlanExpirationOperator(
        task_id="plan_expiration", storage=repo.uri, config=config, aws_conn_id=None
    ).execute(context)


def test_a_plan_says_what_would_leave_history_and_changes_nothing(dated: Dated) -> None:
    before = dated.digest
    plan = planned(dated.repo, older_than=dated.when.isoformat(), estimate=False)
    assert (plan["released"], plan["edited"], plan["refs_deleted"]) == (2, 1, [])
    asked = plan["expiration"]
    assert (asked["delete_expired_branches"], asked["delete_expired_tags"]) == (False, False)
    assert (plan["window"], plan["would_free_bytes"]) == (None, None)
    assert dated.digest == before
