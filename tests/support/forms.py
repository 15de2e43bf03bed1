"""What the form of a DAG asks for, and what its tasks read from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from dredge.settings import Setting


def read_by(*arguments: Mapping[str, Any]) -> set[str]:
    """Names of the Params that templates read."""
    return set(re.findall(r"\bparams\.(\w+)", json.dumps(arguments, default=str)))


def asked_for(form: Iterable[Setting]) -> set[str]:
    """Names of what a form asks for."""
    return {setting.name for setting in form}


def sat_out(params: dict[str, Param], defaults: Mapping[str, Any]) -> timedelta:
    """How long a task tries until it fails, where what it needs does not answer."""
    with DAG("some", params=params, default_args=dict(defaults)):
        task = EmptyOperator(task_id="some")
    return (task.retries or 0) * task.retry_delay
