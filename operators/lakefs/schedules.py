"""What the schedule of a collection means, and the schedules that people name in Airflow's pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import CronDataIntervalTimetable

from airflow_dredge.operators.lakefs.params import FORM
from airflow_dredge.operators.schedules import schedules_in
from dredge.errors import ConfigError

GC_SCHEDULES = "dredge_gc_schedules"
"""Variable: a JSON object of DAG ids, each with `schedule`, `repository` and other Params of `lakefs_gc`."""

_OF_A_SCHEDULE = ("schedule", "mode")
_NO_INTERVALS = ("@once", "@continuous")
_BY_HAND = ("manual", "operator_triggered", "asset_triggered")


def intervals(schedule: Any) -> Any:
    """Return the schedule of a DAG whose runs each have a data interval of their own.

    A cron text alone gives runs an interval without length, and so backfills nothing to work on.

    :param schedule: a cron text in UTC, such as ``@hourly``; anything else stays as it is
    """
    if not isinstance(schedule, str) or schedule in _NO_INTERVALS:
        return schedule
    return CronDataIntervalTimetable(schedule, timezone="UTC")


def run_types(schedule: Any) -> list[str]:
    """Return which kinds of runs a DAG may have: backfills only where a schedule gives them intervals."""
    return list(_BY_HAND) if schedule is None else [*_BY_HAND, "scheduled", "backfill"]


def gc_schedules() -> dict[str, dict[str, Any]]:
    """Return what each scheduled collection is to be made with, by DAG id.

    :raises ConfigError: the Variable does not say what it should; Airflow shows it as an import error
    """
    return schedules_in(GC_SCHEDULES, "repository")


def repository_settings() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings that repositories have in the Variable, without their schedules.

    :return: settings by repository; and why there are none, by repository, where schedules differ about one in more
        than when and in which mode it is collected: which of them should count, nobody said
    :raises ConfigError: the Variable does not say what it should
    """
    found: dict[str, dict[str, Any]] = {}
    conflicts: dict[str, str] = {}
    for dag_id, entry in gc_schedules().items():
        repository = entry["repository"]
        try:
            settings = _read(entry)
        except ConfigError as error:
            conflicts[repository] = f"Variable {GC_SCHEDULES}, {dag_id!r}: {error}"
            continue
        if found.setdefault(repository, settings) != settings:
            conflicts[repository] = (
                f"the Variable {GC_SCHEDULES} has other settings for it in {dag_id} than in an entry before"
            )
    return found, conflicts


def _read(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an entry as values, which text is not where a run is started with them."""
    known = {found.name: found for found in FORM}
    settings = {name: value for name, value in entry.items() if name not in _OF_A_SCHEDULE}
    if unknown := sorted(settings.keys() - known.keys()):
        raise ConfigError(f"unknown setting {unknown[0]}")
    return {name: known[name].read(value) for name, value in settings.items()}
