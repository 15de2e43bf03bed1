"""Airflow's Variables, read such that one that cannot be read is never taken for one that is not there."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from dredge.errors import ConfigError, UnavailableError


def json_variable(name: str) -> Any:
    """Return what a Variable says; None when there is none.

    Asked for JSON, Airflow would log a text that is none, and give the default: settings that were to keep a run from
    deleting would be gone.

    :param name: of the Variable
    :raises ConfigError: it is no JSON
    :raises UnavailableError: Airflow cannot tell whether there is one
    """
    text = Variable.get(name, default=None)
    if text is None:
        _check_absent(name)
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"Variable {name} is no JSON: {error}") from None


def _check_absent(name: str) -> None:
    """Ask Airflow's server itself: the answer that did not come counts as none above, too."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable

    server = getattr(task_runner, "SUPERVISOR_COMMS", None)
    if server is None:  # this is no task, and reads the database or the environment
        return
    try:
        answer = server.send(GetVariable(key=name))
    except AirflowRuntimeError as error:
        answer = error.error
    if not (isinstance(answer, ErrorResponse) and answer.error is ErrorType.VARIABLE_NOT_FOUND):
        raise UnavailableError(
            f"Airflow does not tell what the Variable {name} says. It may have settings that matter, so nothing was"
            " started."
        )
