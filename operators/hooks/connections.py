"""Lookup of Airflow connections."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook, mask_secret
from airflow.secrets.environment_variables import EnvironmentVariablesBackend

from airflow_dredge.operators.airflow_versions import AccessDenied
from dredge.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from airflow.sdk import Connection


class UnreadableError(ConfigError):
    """There is a connection, and its text cannot be read."""


def find_connection(conn_id: str) -> Connection | None:
    """Return a connection; None when Airflow finds none.

    :param conn_id: its id
    :raises UnreadableError: the environment variable of the connection cannot be read
    :raises ConfigError: the task may not read the connection
    :raises UnavailableError: Airflow fails to look it up
    """
    _check_environment(conn_id)
    try:
        found: Connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    except AccessDenied:
        raise ConfigError(
            f"Airflow does not let this process read the connection {conn_id!r}. Nothing was touched."
        ) from None
    except Exception as error:
        # The words of the error may have secrets, so they are in no log and in no cause.
        raise UnavailableError(
            f"Airflow failed to look up the connection {conn_id!r} ({type(error).__name__}). Nothing was touched."
        ) from None
    for secret in filter(None, (found.password, found.extra)):
        mask_secret(secret)
    _check_extra(found)
    return found


def _check_environment(conn_id: str) -> None:
    # Airflow passes over a variable that it cannot parse: a connection of the same name from elsewhere would be used.
    try:
        EnvironmentVariablesBackend().get_connection(conn_id)
    except Exception as error:
        raise UnreadableError(
            f"the connection {conn_id!r} in the variable AIRFLOW_CONN_{conn_id.upper()} cannot be read:"
            f" {_wrong_in(error)}. Nothing was touched."
        ) from None


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


def _check_extra(connection: Connection) -> None:
    """Refuse an extra that is no JSON object: Airflow takes it for an empty one, and what it says would be lost."""
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError as error:
        where = (
            f" at line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise UnreadableError(
            f"the extra of the connection {connection.conn_id!r} is no JSON: wrong{where} (such as a comma before a"
            " closing brace, or single quotes). Nothing was touched."
        ) from None
    if not isinstance(extra, dict):
        raise UnreadableError(
            f"the extra of the connection {connection.conn_id!r} must be a JSON object. Nothing was touched."
        )


def need_connection(conn_id: str, what: str, example: str) -> Connection:
    """Return a connection that there must be.

    :param conn_id: its id
    :param what: of what it is, for the message, such as "lakeFS"
    :param example: JSON for the message
    :raises ConfigError: there is none, or it may not be read
    :raises UnavailableError: Airflow fails to look it up
    """
    connection = find_connection(conn_id)
    if connection is None:
        raise ConfigError(
            f"the {what} connection {conn_id!r} does not exist, or the secrets backend that has it does not answer."
            f" Make it in the UI or set AIRFLOW_CONN_{conn_id.upper()}, for example to {example}"
        )
    return connection
