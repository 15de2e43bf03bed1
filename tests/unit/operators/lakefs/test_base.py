"""What every step of a run in the worker does before its own work."""

from __future__ import annotations

import pytest

from airflow_dredge.operators.lakefs.mark_uncommitted import LakeFSMarkUncommittedOperator
from dredge.errors import ConfigError


def test_step_without_a_plan_says_where_to_look() -> None:
    operator = LakeFSMarkUncommittedOperator(task_id="m", run_uri="")
    with pytest.raises(ConfigError):
        operator.execute({})  # type: ignore[arg-type]
