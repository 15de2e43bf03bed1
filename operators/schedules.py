"""Schedules of collections: what they mean, and those that people name in Airflow's pages, in a Variable with DAG ids
and what each is made with."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.airflow_versions import allowed_run_types, cron_intervals
from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError
from dredge.settings import Setting, with_nearest

if TYPE_CHECKING:
    from airflow.sdk import Context

_DAG_ID = re.compile(r"[A-Za-z0-9_.-]+")
_NO_INTERVALS = ("@once", "@continuous")
_WINDOWED = ("scheduled", "backfill")
_OF_A_SCHEDULE = ("schedule", "mode", "default_args")
LEASE_RETRIES = 10
"""Of the task that waits for the lease: a try that the scheduler takes for lost while it waits costs nothing."""
BY_HAND = ("manual", "operator_triggered", "asset_triggered")
#: Runs of a DAG that cannot be backfilled: there is nothing that intervals could mean.
NO_BACKFILLS = [*BY_HAND, "scheduled"]


def on_schedule(schedule: Any) -> dict[str, Any]:
    """Return what a DAG with runs of one repository is made with.

    :param schedule: a cron text in UTC, such as ``@hourly``, or another schedule; None for runs by hand
    """
    return {
        "schedule": intervals(schedule),
        # Runs by hand are of different repositories; the lease keeps two of the same one apart.
        "max_active_runs": 64 if schedule is None else 1,
        "is_paused_upon_creation": None if schedule is None else True,
        **allowed_run_types(run_types(schedule)),
    }


def first_of(schedule: Any) -> dict[str, Any]:
    """Return what the first task of such a DAG is made with.

    Runs on a schedule and backfills follow each other strictly: the next one waits for the tasks directly behind this
    one's first task, among them the report, which fails with the run, and the lease's return. The lease keeps any two
    runs apart.

    :param schedule: of the DAG
    """
    serial = schedule is not None
    return {"depends_on_past": serial, "wait_for_downstream": serial}


def intervals(schedule: Any) -> Any:
    """Return the schedule of a DAG whose runs each have a data interval of their own.

    A cron text alone gives runs an interval without length, and so backfills nothing to work on.

    :param schedule: a cron text in UTC, such as ``@hourly``; anything else stays as it is
    """
    if not isinstance(schedule, str) or schedule in _NO_INTERVALS:
        return schedule
    return cron_intervals(schedule)


def run_types(schedule: Any) -> list[str]:
    """Return which kinds of runs a DAG may have: backfills only where a schedule gives them intervals."""
    return [*BY_HAND] if schedule is None else [*BY_HAND, "scheduled", "backfill"]


def data_window(context: Context) -> tuple[datetime, datetime] | None:
    """Return the data interval of a scheduled or backfilled run; None when the run has to look at everything.

    A run by hand, by an asset or by another DAG has no window: Airflow gives it no interval, one without
    length, or some interval near the time at which it was started.

    :param context: of the task
    """
    run = context.get("dag_run")
    if run is None or str(getattr(run.run_type, "value", run.run_type)) not in _WINDOWED:
        return None
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    return (begin, end) if begin is not None and end is not None and begin < end else None


def schedules_in(variable: str, what: str) -> dict[str, dict[str, Any]]:
    """Return what each scheduled DAG of a Variable is to be made with, by DAG id.

    :param variable: its name
    :param what: the Param that each must have beside ``schedule``, such as ``repository``
    :raises ConfigError: the Variable does not say what it should; Airflow shows it as an import error
    :raises UnavailableError: Airflow cannot tell what it says
    """
    found = json_variable(variable)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ConfigError(f'Variable {variable} must be an object: {{"gc_lake": {{"schedule": …}}}}')
    return {dag_id: _checked(variable, what, dag_id, settings) for dag_id, settings in found.items()}


def _checked(variable: str, what: str, dag_id: str, settings: Any) -> dict[str, Any]:
    where = f"Variable {variable}, {dag_id!r}"
    if not _DAG_ID.fullmatch(dag_id):
        raise ConfigError(f"{where}: a DAG id has letters, digits, dots, dashes and underscores only")
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{where}: must be an object with schedule and {what}")
    for name in ("schedule", what):
        if not isinstance(settings.get(name), str) or not settings[name]:
            raise ConfigError(f"{where}: {name} is missing")
    return dict(settings)


def settings_in(
    variable: str, what: str, form: Collection[Setting]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings that repositories have in a Variable, without their schedules.

    :param variable: its name
    :param what: the Param that names the repository
    :param form: what the form of a run asks for
    :return: settings by repository; and why there are none, by repository, where schedules differ about one in more
        than when and in which mode it is collected, for which of them should count, nobody said; or cannot be read
    :raises ConfigError: the Variable does not say what it should, or an entry has an unknown name
    """
    found: dict[str, dict[str, Any]] = {}
    conflicts: dict[str, str] = {}
    for dag_id, entry in schedules_in(variable, what).items():
        repository = entry[what].rstrip("/")
        known = {setting.name: setting for setting in form}
        own = {name: value for name, value in entry.items() if name not in _OF_A_SCHEDULE}
        for name in sorted(own.keys() - known.keys()):
            raise ConfigError(f"Variable {variable}, {dag_id!r}: unknown setting {with_nearest(name, known)}")
        try:
            # As values: text is none where a run is started with it.
            settings = {name: known[name].read(value) for name, value in own.items()} | {what: repository}
        except ConfigError as error:
            conflicts[repository] = f"Variable {variable}, {dag_id!r}: {error}"
            continue
        if found.setdefault(repository, settings) != settings:
            conflicts[repository] = (
                f"the Variable {variable} has other settings for it in {dag_id} than in an entry before"
            )
    return found, conflicts
