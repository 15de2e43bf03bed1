"""The step that plans an expiration: wrong settings are refused before the repository is read."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators.icechunk.plan_expiration import IcechunkPlanExpirationOperator
from dredge.errors import ConfigError
from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "spec_v3"}, "rule is 'spec_v3'; it may be document, spec_v1 or spec_v2, or empty"),
        ({"estimate": "maybe"}, "estimate is 'maybe'"),
        ({"older_than": ""}, "older_than is ''; it may be text"),
        ({"dry_run": "True"}, "unknown setting dry_run"),
    ],
)
def test_what_does_not_fit_is_named(settings: Any, message: str) -> None:
    operator = IcechunkPlanExpirationOperator(
        task_id="plan_expiration", storage="file:///nowhere", config=settings, aws_conn_id=None
    )
    with pytest.raises(ConfigError, match=message):
        operator.execute({})  # type: ignore[typeddict-item]
