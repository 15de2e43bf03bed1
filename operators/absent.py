"""Whether Airflow has no such connection or Variable, or cannot tell.

Airflow asks one place of secrets after the other, and goes on to the next one when one fails: a vault that does not
answer, an environment variable that cannot be read, a server without its database. Where none had it, the answer is
"not defined", whatever the reason. So who can do without is to ask again here, place by place, such that a failure
shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from dredge.errors import UnavailableError


def check_no_connection(conn_id: str) -> None:
    """Demand that Airflow says clearly that it has no such connection.

    :param conn_id: its id
    :raises UnavailableError: a place of secrets does not tell, or has it by now
    """
    from airflow.sdk.execution_time.comms import GetConnection

    _check(
        f"the connection {conn_id!r}",
        lambda place: place.get_connection(conn_id=conn_id),
        GetConnection(conn_id=conn_id),
        ErrorType.CONNECTION_NOT_FOUND,
    )


def check_no_variable(name: str) -> None:
    """Demand that Airflow says clearly that it has no such Variable.

    :param name: of the Variable
    :raises UnavailableError: a place of secrets does not tell, or has it by now
    """
    from airflow.sdk.execution_time.comms import GetVariable

    _check(
        f"the Variable {name}",
        lambda place: place.get_variable(key=name),
        GetVariable(key=name),
        ErrorType.VARIABLE_NOT_FOUND,
        name,
    )


def _check(
    what: str,
    ask: Callable[[Any], Any],
    request: Any,
    not_found: ErrorType,
    variable: str | None = None,
) -> None:
    from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    for place in ensure_secrets_backend_loaded():
        if isinstance(place, ExecutionAPISecretsBackend):
            _check_server(what, request, not_found, variable)
            continue
        try:
            found = ask(place)
        except Exception as error:  # its words may have secrets
            raise _unknown(what, f"{type(place).__name__} fails with {type(error).__name__}") from error
        if found is not None:
            raise _unknown(what, f"{type(place).__name__} has it by now")


def _check_server(what: str, request: Any, not_found: ErrorType, variable: str | None) -> None:
    """Ask Airflow's server. It says "not found" without its database, too, so that must have answered before; and of a
    Variable that it cannot decrypt, which is among the names all the same."""
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
