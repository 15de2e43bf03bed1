"""Airflow's Variables, read such that one that cannot be read is never taken for one that is not there."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied
from airflow.sdk.log import mask_secret

from airflow_dredge.operators.places import ask_for_variable
from dredge.errors import ConfigError


def json_variable(name: str) -> Any:
    """Return what a Variable says; None when there is none.

    Asked for JSON, Airflow would log a text that is none, and give the default: settings that were to keep a run from
    deleting would be gone.

    :param name: of the Variable
    :raises ConfigError: it is no JSON, or null, or may not be read
    :raises UnavailableError: Airflow cannot tell whether there is one
    """
    try:
        text = ask_for_variable(name)
    except AirflowSecretsBackendAccessDenied:
        raise ConfigError(f"Airflow does not let this process read the Variable {name}") from None
    if text is None:
        return None
    mask_secret(text, name)
    try:
        found = json.loads(text, object_pairs_hook=_each_once)
    except ValueError as error:
        raise ConfigError(f"Variable {name} is no JSON: {error}") from None
    if found is None:
        raise ConfigError(f"Variable {name} is null; remove it, or write what it should say")
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two members of one name the last would count, and what keeps a run from deleting may be in the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found
