"""Connections, read such that one that cannot be had is never taken for one that is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied
from airflow.sdk.log import mask_secret

from airflow_dredge.operators.places import UnreadableError, ask_for_connection
from dredge.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Connection


def find_connection(conn_id: str) -> Connection | None:
    """Return a connection; None when there is none.

    :param conn_id: its id
    :raises ConfigError: it may not be read
    :raises UnavailableError: Airflow cannot tell whether there is one
    """
    try:
        found = ask_for_connection(conn_id)
    except AirflowSecretsBackendAccessDenied:
        raise ConfigError(
            f"Airflow does not let this process read the connection {conn_id!r}. Nothing was touched."
        ) from None
    if found is not None:
        for secret in filter(None, (found.password, found.extra)):
            mask_secret(secret)
        _check_extra(found)
    return found


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
    :raises UnavailableError: Airflow cannot tell whether there is one
    """
    connection = find_connection(conn_id)
    if connection is None:
        raise ConfigError(
            f"the {what} connection {conn_id!r} does not exist. Make it in the UI or set"
            f" AIRFLOW_CONN_{conn_id.upper()}, for example to {example}"
        )
    return connection
