"""Airflow's Variables, read such that one that cannot be read is never taken for one that is not there."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from airflow_dredge.operators.absent import check_no_variable
from dredge.errors import ConfigError


def json_variable(name: str) -> Any:
    """Return what a Variable says; None when there is none.

    Asked for JSON, Airflow would log a text that is none, and give the default: settings that were to keep a run from
    deleting would be gone.

    :param name: of the Variable
    :raises ConfigError: it is no JSON, or may not be read
    :raises UnavailableError: Airflow cannot tell whether there is one
    """
    try:
        text = Variable.get(name, default=None)
    except AirflowSecretsBackendAccessDenied:
        raise ConfigError(f"Airflow does not let this process read the Variable {name}") from None
    if text is None:
        check_no_variable(name)
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"Variable {name} is no JSON: {error}") from None
