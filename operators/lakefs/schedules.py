"""The schedules of lakeFS collections that people name in Airflow's pages."""

from __future__ import annotations

from typing import Any

from airflow_dredge.operators.lakefs.params import FORM
from airflow_dredge.operators.schedules import schedules_in, settings_in

GC_SCHEDULES = "dredge_gc_schedules"
"""Variable: a JSON object of DAG ids, each with `schedule`, `repository` and other Params of `lakefs_gc`."""


def gc_schedules() -> dict[str, dict[str, Any]]:
    """Return what each scheduled collection is to be made with, by DAG id.

    :raises ConfigError: the Variable does not say what it should; Airflow shows it as an import error
    """
    return schedules_in(GC_SCHEDULES, "repository")


def repository_settings() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings that repositories have in the Variable; see ``settings_in``."""
    return settings_in(GC_SCHEDULES, "repository", FORM)
