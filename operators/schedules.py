"""Schedules that people name in Airflow's pages: a Variable with DAG ids and what each is made with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Variable

from dredge.errors import ConfigError

_DAG_ID = re.compile(r"[A-Za-z0-9_.-]+")


def schedules_in(variable: str, what: str) -> dict[str, dict[str, Any]]:
    """Return what each scheduled DAG of a Variable is to be made with, by DAG id.

    :param variable: its name
    :param what: the Param that each must have beside ``schedule``, such as ``repository``
    :raises ConfigError: the Variable does not say what it should; Airflow shows it as an import error
    """
    try:
        found = Variable.get(variable, default=None, deserialize_json=True)
    except ValueError as error:
        raise ConfigError(f"Variable {variable} is no JSON: {error}") from None
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
