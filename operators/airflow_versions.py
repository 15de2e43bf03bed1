"""Differences between Airflow 3.0 and 3.3 that Airflow's compatibility package does not cover.

Each comment names the first version with the feature.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import airflow.sdk
from airflow.sdk import DAG, exceptions

#: 3.2: a secrets backend denies a task a secret. An empty tuple catches nothing in `except`.
AccessDenied: Any = getattr(exceptions, "AirflowSecretsBackendAccessDenied", ())

#: 3.3: a task in state `awaiting_input`; before, the task is deferred to the triggerer.
TaskAwaitingInput: Any = getattr(exceptions, "TaskAwaitingInput", ())

#: 3.3: retry policies.
HAS_RETRY_POLICY = hasattr(airflow.sdk, "ExceptionRetryPolicy")

_HAS_RUN_TYPES = "allowed_run_types" in inspect.signature(DAG.__init__).parameters


def _deferral_timeout() -> Any:
    if hasattr(exceptions, "TaskDeferralTimeout"):
        return exceptions.TaskDeferralTimeout
    from airflow.exceptions import TaskDeferralTimeout

    return TaskDeferralTimeout


#: Timeout of a deferred task; before 3.2 in another module.
TaskDeferralTimeout: Any = _deferral_timeout()


def cron_intervals(cron: str) -> Any:
    """Return a timetable with data intervals for a cron text in UTC, such as ``@hourly``."""
    timetable: Any = getattr(airflow.sdk, "CronDataIntervalTimetable", None)
    if timetable is None:  # 3.0 and 3.1
        from airflow.timetables.interval import CronDataIntervalTimetable as timetable
    return timetable(cron, timezone="UTC")


def allowed_run_types(kinds: Sequence[Any]) -> dict[str, Any]:
    """Return the DAG argument that limits the kinds of runs; empty before Airflow 3.3."""
    if not _HAS_RUN_TYPES:
        return {}
    # 3.3: runs started by another DAG have their own kind; before, their kind is manual.
    known = [kind for kind in kinds if HAS_RETRY_POLICY or kind != "operator_triggered"]
    return {"allowed_run_types": known}
