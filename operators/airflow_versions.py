"""Differences of Airflow 3.0 to 3.3 that Airflow's own compatibility package does not cover.

Each name is missing before the version that its comment says.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import airflow.sdk
from airflow.sdk import DAG, exceptions

#: 3.2: a secrets backend forbids a task to read a secret. Nothing is caught where the class is missing.
AccessDenied: Any = getattr(exceptions, "AirflowSecretsBackendAccessDenied", ())

#: 3.3: a task that waits for a person without a trigger; before, such a task is deferred to the triggerer.
TaskAwaitingInput: Any = getattr(exceptions, "TaskAwaitingInput", ())

#: 3.3: retries that depend on the exception.
HAS_RETRY_POLICY = hasattr(airflow.sdk, "ExceptionRetryPolicy")

_HAS_RUN_TYPES = "allowed_run_types" in inspect.signature(DAG.__init__).parameters


def _deferral_timeout() -> Any:
    if hasattr(exceptions, "TaskDeferralTimeout"):
        return exceptions.TaskDeferralTimeout
    from airflow.exceptions import TaskDeferralTimeout

    return TaskDeferralTimeout


#: A deferred task was woken because its time was over; before 3.2 it is in another module.
TaskDeferralTimeout: Any = _deferral_timeout()


def cron_intervals(cron: str) -> Any:
    """Return a timetable of runs with data intervals.

    :param cron: a cron text in UTC, such as ``@hourly``
    """
    timetable: Any = getattr(airflow.sdk, "CronDataIntervalTimetable", None)
    if timetable is None:  # 3.0 and 3.1
        from airflow.timetables.interval import CronDataIntervalTimetable as timetable
    return timetable(cron, timezone="UTC")


def allowed_run_types(kinds: Sequence[Any]) -> dict[str, Any]:
    """Return the argument of a DAG that limits how its runs are started; none where Airflow cannot limit it.

    :param kinds: of runs
    """
    if not _HAS_RUN_TYPES:
        return {}
    # 3.3: a run that a task of another DAG started has a kind of its own; before, it is one by hand.
    known = [kind for kind in kinds if HAS_RETRY_POLICY or kind != "operator_triggered"]
    return {"allowed_run_types": known}
