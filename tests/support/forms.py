"""Fields of a DAG's form, and Params read by its tasks."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from dredge.settings import Setting


def read_by(*arguments: Mapping[str, Any]) -> set[str]:
    return set(re.findall(r"\bparams\.(\w+)", json.dumps(arguments, default=str)))


def asked_for(form: Iterable[Setting]) -> set[str]:
    return {setting.name for setting in form}


def sat_out(params: dict[str, Param], defaults: Mapping[str, Any]) -> timedelta:
    """Time until a task fails when its service does not answer."""
    with DAG("some", params=params, default_args=dict(defaults)):
        task = EmptyOperator(task_id="some")
    return (task.retries or 0) * task.retry_delay
