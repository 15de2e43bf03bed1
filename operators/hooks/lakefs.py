"""Hook for lakeFS servers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseHook

from airflow_dredge.operators.hooks.connections import need_connection
from dredge.errors import ConfigError, DredgeError
from dredge.lakefs import LakeFSClient

if TYPE_CHECKING:
    from airflow.sdk import Connection

_SCHEMES = ("http", "https")
_TLS_PORT = 443
EXAMPLE = '{"conn_type": "lakefs", "host": "http://lakefs:8000", "login": "<key id>", "password": "<secret>"}'


class LakeFSHook(BaseHook):
    """Connect to a lakeFS server.

    The connection's host is the server's URL, with or without ``/api/v1``; login and password are the key
    pair of a user with permission to read, list branches and prepare garbage collection. The types ``https``
    and ``http``, which Airflow makes from a URL with a key pair, work too. ``verify`` of the extra is the PEM
    file of a private certificate authority.

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
        """The client of the connection."""
        return _make_client(need_connection(self.lakefs_conn_id, "lakeFS", EXAMPLE))

    def get_conn(self) -> LakeFSClient:
        """Return the client."""
        return self.client

    def env(self) -> dict[str, str]:
        """Return the environment variables for a job, with the secret."""
        return self.client.to_env()

    def test_connection(self) -> tuple[bool, str]:
        """Test the connection, for the button in the UI."""
        try:
            # Airflow's own lookup also finds the unsaved connection of the form.
            client = _make_client(self.get_connection(self.lakefs_conn_id))
            return True, f"lakeFS {client.version() or 'of an unknown version'} answers"
        except DredgeError as error:
            return False, str(error)


def _make_client(connection: Connection) -> LakeFSClient:
    if not (connection.host and connection.login and connection.password):
        raise ConfigError(
            f"the lakeFS connection {connection.conn_id!r} is incomplete: set host to the URL, login to an access key"
            " id, and password to its secret"
        )
    extra = connection.extra_dejson
    if extra.get("verify") is False:
        raise _wrong(connection, "verify must be the PEM file of a certificate authority; it cannot be false")
    bundle = extra.get("verify")
    more = {"ca_bundle": bundle} if isinstance(bundle, str) and bundle else {}
    return LakeFSClient(_endpoint(connection), connection.login, connection.password, **more)


def _endpoint(connection: Connection) -> str:
    """Return the URL of the server.

    Airflow reads `https://key:secret@host/path` as type `https`, host `host` and schema `path`. So the scheme may be
    in the type, the host or the schema; another schema is a path. The default scheme depends on the port.
    """
    host, kind, schema = connection.host or "", connection.conn_type or "", connection.schema or ""
    before, found, rest = host.rpartition("://")
    written = {word.lower() for word in (before, kind, schema)} & {*_SCHEMES}
    if (found and before.lower() not in _SCHEMES) or "@" in rest:
        raise _wrong(connection, "host must be an http or https URL without login and password")
    if len(written) > 1:
        raise _wrong(connection, "type, host and schema contain both http and https; use one of them")
    place, slash, path = rest.partition("/")
    if schema.lower() not in _SCHEMES and schema:
        slash, path = "/", f"{path.rstrip('/')}/{schema}".lstrip("/")
    scheme = next(iter(written), "https" if connection.port == _TLS_PORT else "http")
    return f"{scheme}://{_with_port(place, connection.port)}{slash}{path}".rstrip("/")


def _with_port(place: str, port: int | None) -> str:
    """Return host and port; adds missing brackets of an IPv6 address, as in a connection from a URI."""
    if place.count(":") > 1 and not place.startswith("["):
        place = f"[{place}]"
    has_port = ":" in place.rpartition("]")[2]
    return f"{place}:{port}" if port and not has_port else place


def _wrong(connection: Connection, what: str) -> ConfigError:
    return ConfigError(f"the lakeFS connection {connection.conn_id!r} is invalid: {what}. No key was sent.")
