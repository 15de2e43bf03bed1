"""The step that plans a collection: what it reads of its settings."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators.icechunk.plan_collection import IcechunkPlanCollectionOperator
from dredge.errors import ConfigError
from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

EXPIRATION = {
    "threshold": "2026-01-01T00:00:00+00:00",
    "rule": "spec_v2",
    "delete_expired_branches": False,
    "delete_expired_tags": False,
}


def planning(**settings: Any) -> IcechunkPlanCollectionOperator:
    return IcechunkPlanCollectionOperator(
        task_id="plan_collection",
        storage="file:///repo",
        config=settings,
        expiration=EXPIRATION,
        aws_conn_id=None,
    )


def test_rendered_text_becomes_the_collectors_own_values() -> None:
    config = planning(
        dry_run="False",
        min_age_hours="48",
        unsafe_min_age_seconds="None",
        overwritten_min_age_hours="",
        max_delete_objects="10",
        keep_chunks="True",
    ).checked()
    assert (config.uri, config.dry_run, config.min_age_hours) == ("file:///repo", False, 48.0)
    assert (config.unsafe_min_age_seconds, config.overwritten_min_age_hours) == (None, None)
    assert (config.max_delete_objects, config.keep_chunks, config.keep_transactions) == (10, True, False)


def test_only_a_dry_run_reports_what_would_go_after_the_planned_expiration() -> None:
    after = planning().checked().after
    assert after is not None
    assert (after.threshold, after.rule) == (EXPIRATION["threshold"], "spec_v2")
    assert planning(dry_run="False").checked().after is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_age_hours": "23"}, "min_age_hours is 23; it may be a number of at least 24"),
        ({"grace_hours": "-1"}, "grace_hours is -1"),
        ({"max_delete_percent": "101"}, "max_delete_percent is 101"),
        ({"older_than": "30d"}, "unknown setting older_than"),
        ({"dry_run": ""}, "dry_run is ''; it may be true or false"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        planning(**settings).execute({})  # type: ignore[typeddict-item]
