"""What Airflow's places of secrets say of a connection or a Variable, such that one that fails shows.

Airflow asks one place after the other, and goes on to the next one when one fails: a vault that does not answer, an
environment variable that cannot be read, a server without its database. What a later place has of the same name (such
as a default connection of the metadata database) is taken then, and where none has it the answer is "not defined",
whatever the reason. So the places are asked here, in the same order.

Source: P25 of docs/platform-behaviour.md
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError, AirflowSecretsBackendAccessDenied, ErrorType

from dredge.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from airflow.sdk import Connection


class UnreadableError(ConfigError):
    """There is a connection or a Variable, and its text cannot be read."""


def ask_for_connection(conn_id: str) -> Connection | None:
    """Return the connection of the first place that has it; None where each says clearly that it has none.

    :param conn_id: its id
    :raises UnreadableError: the environment's variable of it cannot be read
    :raises UnavailableError: a place of secrets does not tell
    :raises AirflowSecretsBackendAccessDenied: it may not be read
    """
    from airflow.sdk.execution_time.comms import GetConnection

    found: Connection | None = _ask(
        f"the connection {conn_id!r}",
        lambda place: place.get_connection(conn_id=conn_id),
        GetConnection(conn_id=conn_id),
        ErrorType.CONNECTION_NOT_FOUND,
    )
    return found


def ask_for_variable(name: str) -> str | None:
    """Return what a Variable says in the first place that has it; None where each says clearly that it has none.

    :param name: of the Variable
    :raises UnavailableError: a place of secrets does not tell
    :raises AirflowSecretsBackendAccessDenied: it may not be read
    """
    from airflow.sdk.execution_time.comms import GetVariable

    found: str | None = _ask(
        f"the Variable {name}",
        lambda place: place.get_variable(key=name),
        GetVariable(key=name),
        ErrorType.VARIABLE_NOT_FOUND,
        name,
    )
    return found


def _ask(
    what: str,
    ask: Callable[[Any], Any],
    request: Any,
    not_found: ErrorType,
    variable: str | None = None,
) -> Any:
    from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    for place in ensure_secrets_backend_loaded():
        found = _found_in(place, what, ask)
        if found is not None:
            return found
        if isinstance(place, ExecutionAPISecretsBackend):
            _check_server(what, request, not_found, variable)
    return None


def _found_in(place: Any, what: str, ask: Callable[[Any], Any]) -> Any:
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend

    try:
        return ask(place)
    except NotImplementedError:
        return None  # it is a place of other things
    except AirflowSecretsBackendAccessDenied:
        raise
    except Exception as error:
        # Its words may have secrets, so they are in no log and in no cause.
        steps = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
        # The environment asks nobody, and any other place has got its text before that is read.
        if isinstance(place, EnvironmentVariablesBackend) or "deserialize_connection" in steps:
            raise UnreadableError(
                f"{what} cannot be read: {_wrong_in(error)}. Nothing was touched."
            ) from None
        raise _unknown(what, f"{type(place).__name__} fails with {type(error).__name__}") from None


def _wrong_in(error: Exception) -> str:
    """What is wrong with the text of a connection, and how to write it, without anything of the text."""
    if isinstance(error, json.JSONDecodeError):
        return (
            f"its JSON is wrong at line {error.lineno}, column {error.colno} (such as a comma before a closing brace,"
            " or single quotes)"
        )
    return (
        f"{type(error).__name__}. In a URI the characters / # ? @ : % [ ] and spaces of a user, a password or a value"
        ' are percent-encoded (/ is %2F, [ is %5B); or write it as JSON, {"conn_type": …, "host": …, "password": …},'
        " where nothing is encoded"
    )


def _check_server(what: str, request: Any, not_found: ErrorType, variable: str | None) -> None:
    """Demand that Airflow's server says clearly that it has none.

    It says "not found" without its database, too, so that must have answered before; and of a Variable that it cannot
    decrypt, which is among the names all the same.
    """
    from airflow.sdk.execution_time.comms import ErrorResponse, GetVariableKeys, VariableKeysResult

    variables = _answer(GetVariableKeys(prefix=variable))
    if not isinstance(variables, VariableKeysResult):
        raise _unknown(what, "Airflow's server does not reach its database")
    if variable in variables.keys:
        raise _unknown(what, "Airflow's server has it, and cannot read it")
    answer = _answer(request)
    if not (isinstance(answer, ErrorResponse) and answer.error is not_found):
        said = answer.error.value if isinstance(answer, ErrorResponse) else type(answer).__name__
        raise _unknown(what, f"Airflow's server says {said}")


def _answer(request: Any) -> Any:
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    try:
        return SUPERVISOR_COMMS.send(request)
    except AirflowRuntimeError as error:
        return error.error


def _unknown(what: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"Airflow does not tell what {what} says: {why}. It may matter, so nothing was touched."
    )
