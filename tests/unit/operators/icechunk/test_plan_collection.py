"""The step that plans a collection: what it reads of its settings."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators.icechunk.plan_collection import IcechunkPlanCollectionOperator
from dredge.errors import ConfigError, LeaseHeldError
from dredge.icechunk.collection.run import Run
from tests.support.icechunk_operators import Dated, acquire, plan

EXPIRATION = {"expiration": {"threshold": "2026-01-01T00:00:00+00:00", "rule": "spec_v2"}}


def planning(**settings: Any) -> IcechunkPlanCollectionOperator:
    return IcechunkPlanCollectionOperator(
        task_id="plan_collection",
        storage="file:///repo",
        config=settings,
        expiration=EXPIRATION,
        aws_conn_id=None,
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"min_age_hours": "23"},
        {"grace_hours": "-1"},
        {"max_delete_percent": "101"},
        {"older_than": "30d"},
        {"dry_run": ""},
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(settings: Any) -> None:
    with pytest.raises(
        ConfigError,
    ):
        planning(**settings).execute({})  # type: ignore[typeddict-item]


def test_the_plan_is_one_under_the_right_of_the_run(dated: Dated) -> None:
    lease = acquire(dated.repo, "manual__1")
    made = plan(dated.repo, lease, mode="spark", dry_run="False")
    run = Run.open(made["run_uri"])
    assert (made["run_id"], made["mode"], made["dry_run"]) == (run.plan.run_id, "spark", False)
    assert made["cutoff"] == run.plan.cutoff.isoformat()
    assert run.plan.lease.fencing == lease["fencing"]


def test_a_plan_takes_the_right_of_the_run_and_no_other_mode(dated: Dated) -> None:
    lease = acquire(dated.repo, "manual__1")
    with pytest.raises(LeaseHeldError):
        plan(dated.repo, mode="local")
    with pytest.raises(ConfigError):
        plan(dated.repo, lease, mode="library")
