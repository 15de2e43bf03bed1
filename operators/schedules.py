"""Schedules of collections: DAG arguments, data windows, and the Variables with scheduled repositories."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_parsing_context

from airflow_dredge.operators.airflow_versions import allowed_run_types, cron_intervals
from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError
from dredge.process import search_few_cycles
from dredge.settings import Setting, with_nearest

if TYPE_CHECKING:
    from airflow.sdk import Context

_DAG_ID = re.compile(r"[A-Za-z0-9_.-]+")
_NO_INTERVALS = ("@once", "@continuous")
_WINDOWED = ("scheduled", "backfill")
_OF_A_SCHEDULE = ("schedule", "mode", "default_args")
LEASE_RETRIES = 10
"""Retries of the task that waits for the lease, because the scheduler may take a waiting task for lost. A
retry does no harm.
"""
BY_HAND = ("manual", "operator_triggered", "asset_triggered")
#: Kinds of runs without data intervals.
NO_BACKFILLS = [*BY_HAND, "scheduled"]


def schedule_arguments(schedule: Any) -> dict[str, Any]:
    """Return the DAG arguments for a schedule: a cron text in UTC such as ``@hourly``, another schedule, or
    None for manual runs.
    """
    return {
        "schedule": intervals(schedule),
        # Manual runs are for different repositories; the lease separates runs of the same one.
        "max_active_runs": 64 if schedule is None else 1,
        "is_paused_upon_creation": None if schedule is None else True,
        **allowed_run_types(run_types(schedule)),
    }


def first_task_arguments(schedule: Any) -> dict[str, Any]:
    """Return the arguments of the DAG's first task for a schedule.

    Scheduled runs and backfills never overlap: each waits for the tasks directly downstream of the previous
    run's first task, including report and lease release. The lease prevents overlap of all other runs.
    """
    serial = schedule is not None
    return {"depends_on_past": serial, "wait_for_downstream": serial}


def intervals(schedule: Any) -> Any:
    """Return a schedule with a data interval for each run.

    With a plain cron text the interval would be empty, and a backfill would do nothing.
    """
    if not isinstance(schedule, str) or schedule in _NO_INTERVALS:
        return schedule
    return cron_intervals(schedule)


def run_types(schedule: Any) -> list[str]:
    """Return the allowed kinds of runs: backfills only with a schedule, because they need intervals."""
    return [*BY_HAND] if schedule is None else [*BY_HAND, "scheduled", "backfill"]


def data_window(context: Context) -> tuple[datetime, datetime] | None:
    """Return the data interval of a scheduled or backfilled run; None for other runs, which read everything.

    The interval that Airflow gives a manual or triggered run is missing, empty, or near the run's start.
    """
    run = context.get("dag_run")
    if run is None or str(getattr(run.run_type, "value", run.run_type)) not in _WINDOWED:
        return None
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    return (begin, end) if begin is not None and end is not None and begin < end else None


def read_schedules(variable: str, what: str) -> dict[str, dict[str, Any]]:
    """Return the settings of each scheduled DAG in a Variable, by DAG id."""
    found = json_variable(variable)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ConfigError(f'Variable {variable} must be an object: {{"gc_lake": {{"schedule": …}}}}')
    return {dag_id: _checked(variable, what, dag_id, settings) for dag_id, settings in found.items()}


def of_this_parse(schedules: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of the DAGs that Airflow needs from this parse: of the one whose task starts, or of all."""
    wanted = get_parsing_context().dag_id
    if wanted is not None:
        search_few_cycles()  # this process runs one task
    return {dag_id: found for dag_id, found in schedules.items() if wanted in (None, dag_id)}


def _checked(variable: str, what: str, dag_id: str, settings: Any) -> dict[str, Any]:
    where = f"Variable {variable}, {dag_id!r}"
    if not _DAG_ID.fullmatch(dag_id):
        raise ConfigError(f"{where}: a DAG id may contain letters, digits, dots, dashes and underscores only")
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{where}: must be an object with schedule and {what}")
    for name in ("schedule", what):
        if not isinstance(settings.get(name), str) or not settings[name]:
            raise ConfigError(f"{where}: {name} is missing")
    return dict(settings)


def read_settings(
    variable: str, what: str, form: Collection[Setting]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings of repositories in a Variable, without their schedules.

    :return: settings by repository; and errors by repository: conflicting entries (except schedule and mode)
        or invalid values
    """
    found: dict[str, dict[str, Any]] = {}
    conflicts: dict[str, str] = {}
    for dag_id, entry in read_schedules(variable, what).items():
        repository = entry[what].rstrip("/")
        known = {setting.name: setting for setting in form}
        own = {name: value for name, value in entry.items() if name not in _OF_A_SCHEDULE}
        for name in sorted(own.keys() - known.keys()):
            raise ConfigError(f"Variable {variable}, {dag_id!r}: unknown setting {with_nearest(name, known)}")
        try:
            # Typed values, because the started run's Params reject text.
            settings = {name: known[name].read(value) for name, value in own.items()} | {what: repository}
        except ConfigError as error:
            conflicts[repository] = f"Variable {variable}, {dag_id!r}: {error}"
            continue
        if found.setdefault(repository, settings) != settings:
            conflicts[repository] = (
                f"the Variable {variable} has other settings for this repository in {dag_id} than in an earlier entry"
            )
    return found, conflicts
