"""Lookup of Airflow connections.

Airflow tries its secrets backends in turn, skips those with an error, and then reports "not found". So a missing
connection may mean an unavailable backend; only default connections may be missing (`storage.storage_options`).

Source: P25 of docs/platform-behaviour.md
"""

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
    """A connection exists, but its text is invalid."""


def find_connection(conn_id: str) -> Connection | None:
    """Return a connection; None if it does not exist.

    :raises UnreadableError: invalid text in the environment variable or the extra
    :raises UnavailableError: the lookup fails
    """
    _check_environment(conn_id)
    try:
        found: Connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    except AccessDenied:
        raise ConfigError(
            f"Airflow does not let this process read the connection {conn_id!r}. Nothing was changed."
        ) from None
    except Exception as error:
        # The error text may contain secrets, so it is in no log and no cause.
        raise UnavailableError(
            f"Airflow failed to look up the connection {conn_id!r} ({type(error).__name__}). Nothing was changed."
        ) from None
    for secret in filter(None, (found.password, found.extra)):
        mask_secret(secret)
    _check_extra(found)
    return found


def _check_environment(conn_id: str) -> None:
    # Airflow skips an invalid variable, and would use a connection of the same name from another backend.
    try:
        EnvironmentVariablesBackend().get_connection(conn_id)
    except Exception as error:
        raise UnreadableError(
            f"the connection {conn_id!r} in the variable AIRFLOW_CONN_{conn_id.upper()} cannot be read:"
            f" {_describe(error)}. Nothing was changed."
        ) from None


def _describe(error: Exception) -> str:
    """Return the problem of an invalid text, and the right syntax, without any of the text."""
    if isinstance(error, json.JSONDecodeError):
        return (
            f"its JSON is invalid at line {error.lineno}, column {error.colno} (such as a comma before a closing"
            " brace, or single quotes)"
        )
    return (
        f"{type(error).__name__}. In a URI, percent-encode spaces and / # ? @ : % [ ] of user, password and values"
        ' (/ is %2F, [ is %5B), or write JSON without encoding: {"conn_type": …, "host": …, "password": …}'
    )


def _check_extra(connection: Connection) -> None:
    """Refuse an extra without a JSON object: Airflow would treat it as empty."""
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError as error:
        where = (
            f" at line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise UnreadableError(
            f"the extra of the connection {connection.conn_id!r} is invalid JSON{where} (such as a comma before a"
            " closing brace, or single quotes). Nothing was changed."
        ) from None
    if not isinstance(extra, dict):
        raise UnreadableError(
            f"the extra of the connection {connection.conn_id!r} must be a JSON object. Nothing was changed."
        )


def need_connection(conn_id: str, what: str, example: str) -> Connection:
    """Return a required connection; raises ConfigError if it does not exist."""
    connection = find_connection(conn_id)
    if connection is None:
        raise ConfigError(
            f"the {what} connection {conn_id!r} does not exist, or its secrets backend does not answer. Nothing was"
            f" changed. Create it in the UI or set AIRFLOW_CONN_{conn_id.upper()}, for example to {example}"
        )
    return connection
