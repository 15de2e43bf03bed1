"""Hook for lakeFS servers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_dredge.operators.hooks.finding import need_connection
from dredge.errors import ConfigError, DredgeError
from dredge.lakefs import LakeFSClient

if TYPE_CHECKING:
    from airflow.sdk import Connection

EXAMPLE = '{"conn_type": "lakefs", "host": "http://lakefs:8000", "login": "<key id>", "password": "<secret>"}'


class LakeFSHook(BaseHook):
    """Speak to a lakeFS server.

    The connection's host is the server's URL, with or without ``/api/v1``; login and password are the key
    pair of a user who may read, list branches and prepare garbage collection.

    :param lakefs_conn_id: connection of the server
    """

    conn_name_attr = "lakefs_conn_id"
    default_conn_name = "lakefs_default"
    conn_type = "lakefs"
    hook_name = "lakeFS"

    def __init__(self, lakefs_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lakefs_conn_id = lakefs_conn_id

    @cached_property
    def client(self) -> LakeFSClient:
        """The client, made from the connection on first use."""
        return _client_of(need_connection(self.lakefs_conn_id, "lakeFS", EXAMPLE))

    def get_conn(self) -> LakeFSClient:
        """Return the client."""
        return self.client

    def env(self) -> dict[str, str]:
        """Return the variables that let a job reach the same server, the secret among them."""
        return self.client.to_env()

    def test_connection(self) -> tuple[bool, str]:
        """Try the connection, for the button in the UI."""
        try:
            # Airflow's own way finds the one of the form, which nobody has saved yet.
            client = _client_of(self.get_connection(self.lakefs_conn_id))
            return True, f"lakeFS {client.version() or 'of an unknown version'} answers"
        except DredgeError as error:
            return False, str(error)


def _client_of(connection: Connection) -> LakeFSClient:
    if not (connection.host and connection.login and connection.password):
        raise ConfigError(
            f"the lakeFS connection {connection.conn_id!r} is not complete: host is the URL, login"
            " and password are an access key id and its secret"
        )
    endpoint = _endpoint(connection.host, connection.port, connection.schema)
    return LakeFSClient(endpoint, connection.login, connection.password)


def _endpoint(host: str, port: int | None, schema: str | None) -> str:
    """Put a connection's parts together; `lakefs://key:secret@host:8000` has no scheme of HTTP's."""
    scheme, found, rest = host.partition("://")
    if not found:
        scheme, rest = schema or "http", host
    place, slash, path = rest.partition("/")
    if port and ":" not in place:
        place = f"{place}:{port}"
    return f"{scheme}://{place}{slash}{path}".rstrip("/")
