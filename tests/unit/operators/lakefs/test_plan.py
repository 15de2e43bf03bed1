"""The plan step: what it reads of its settings, and which window a run has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_dredge.operators.lakefs.run import LakeFSPlanRunOperator
from dredge.errors import ConfigError
from dredge.runs.payload import to_json


def planning(**settings: Any) -> LakeFSPlanRunOperator:
    """The operator with rendered settings, and without a connection of a store."""
    own = {name: settings.pop(name) for name in ("kv_conn_id",) if name in settings}
    config = {"repository": "lake", **settings}
    return LakeFSPlanRunOperator(task_id="plan", config=config, aws_conn_id=None, **own)


@pytest.mark.parametrize("value", ["", "None", "no", "0", None])
def test_nothing_vague_is_taken_for_permission_to_delete(value: Any) -> None:
    with pytest.raises(ConfigError):
        planning(dry_run=value).checked()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dryrun", "False"),
        ("min_age_hours", "many"),
        ("min_age_hours", "1"),
        ("slice_margin_hours", "48"),
        ("max_delete_percent", "nan"),
        ("mode", "fast"),
        ("repository", ""),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(name: str, value: Any) -> None:
    operator = planning(**{name: value})
    operator.hook = None  # a server that nobody may ask
    with pytest.raises(ConfigError):
        operator.execute({})  # type: ignore[typeddict-item]


def test_plan_takes_the_policy_itself_along_and_of_the_database_only_that_there_is_one() -> None:
    operator = planning(
        keep_tags="False",
        retention_policy="version: 1\nkeep:\n  - {name: releases, branches: 'release-*', last: 3}\n",
        kv_conn_id="lakefs_kv_default",
    )
    config = operator.checked()
    assert config.keep_tags is False
    assert config.read_kv is True
    assert config.policy is not None
    assert [rule.name for rule in config.policy.rules] == ["releases"]
    assert "lakefs_kv_default" not in json.dumps(to_json(config))


def test_plan_is_a_dry_run_unless_told() -> None:
    assert planning().checked().dry_run
