"""Connections to lakeFS's key-value store."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow_dredge.operators.hooks.connections import need_connection
from airflow_dredge.operators.params import is_given
from dredge.errors import ConfigError

if TYPE_CHECKING:
    from dredge.kv.dynamodb import AwsKeys
    from dredge.kv.rows import ReadRate, RowCleaner, RowReader

log = logging.getLogger(__name__)

DEFAULT_CONNECTION = "lakefs_kv_default"
_EXAMPLE = (
    '{"conn_type": "postgres", "host": "db", "schema": "lakefs", "login": "<user>", "password": "<secret>"}'
)
_OF_AIRFLOW = frozenset(
    {
        "aws_conn_id",
        "azure_conn_id",
        "cluster-identifier",
        "cursor",
        "enable_log_db_messages",
        "iam",
        "redshift",
        "redshift-serverless",
        "sqlalchemy_query",
        "sqlalchemy_scheme",
        "workgroup-name",
    }
)
"""Names in an extra that only Airflow's hook uses."""
_TABLE, _REGION, _ENDPOINT = "dynamodb_table", "region_name", "endpoint_url"


@dataclass(frozen=True)
class LakeFSKVConnection:
    """Address and credentials of a key-value store.

    :param url: URL for `dredge.kv.opening`; it may contain a password
    :param keys: key pair for DynamoDB; None for the worker's own credentials
    """

    url: str = field(repr=False)
    keys: AwsKeys | None = field(default=None, repr=False)

    @classmethod
    def read(cls, kv_conn_id: str) -> LakeFSKVConnection:
        """Read a connection.

        :param kv_conn_id: of type ``postgres`` (lakeFS's database), ``aws`` (DynamoDB; extra
            ``dynamodb_table``, ``region_name``, ``endpoint_url``) or ``sqlite`` (the host is the file)
        """
        connection = need_connection(kv_conn_id, "key-value store's", _EXAMPLE)
        if connection.conn_type == "postgres":
            return cls(_postgres_url(connection))
        if connection.conn_type == "aws":
            return cls(_dynamodb_url(connection.extra_dejson), _keys(kv_conn_id))
        if connection.conn_type == "sqlite":
            return cls(f"sqlite://{quote(connection.host or '')}")
        raise ConfigError(
            f"connection {kv_conn_id} is of type {connection.conn_type!r}; valid types are postgres, aws (DynamoDB)"
            " and sqlite"
        )

    def reader(self, rate: ReadRate | None = None) -> closing[RowReader]:
        """Open the store for reading."""
        from dredge.kv.opening import open_row_reader

        return closing(open_row_reader(self.url, rate, self.keys))

    def cleaner(self, rate: ReadRate | None = None) -> closing[RowCleaner]:
        """Open the store for cleaning."""
        from dredge.kv.opening import open_row_cleaner

        return closing(open_row_cleaner(self.url, rate, self.keys))


def kv_env(kv_conn_id: str | None) -> dict[str, str]:
    """Return the environment variables for the key-value store, with secrets; empty without a connection."""
    if not is_given(kv_conn_id):
        return {}
    from dredge.gc.steps import KVAccess

    connection = LakeFSKVConnection.read(str(kv_conn_id))
    return KVAccess(connection.url, connection.keys).to_env()


def _postgres_url(connection: Any) -> str:
    login = quote(connection.login or "", safe="")
    if connection.password:
        login += f":{quote(connection.password, safe='')}"
    host = connection.host or ""
    place = quote(host, safe="[]:.") if not host.startswith("/") else ""
    if connection.port and place:
        place += f":{connection.port}"
    extra = connection.extra_dejson
    if extra.get("iam"):
        raise ConfigError(
            f"the key-value store's connection {connection.conn_id!r} has iam, a login with a cloud token, which"
            " Dredge does not support. Nothing was changed. Set a password."
        )
    left_out = [
        name
        for name, value in extra.items()
        if name in _OF_AIRFLOW or value is None or isinstance(value, dict | list | bool)
    ]
    if left_out:
        log.info("Connection %s: the key-value store ignores %s", connection.conn_id, ", ".join(left_out))
    words = {name: str(value) for name, value in extra.items() if name not in left_out}
    if host.startswith("/"):  # a socket folder; the port is part of the socket's name
        words["host"] = host
        if connection.port:
            words["port"] = str(connection.port)
    url = f"postgresql://{login}@{place}/{quote(connection.schema or '', safe='')}"
    return f"{url}?{urlencode(words)}" if words else url


def _dynamodb_url(extra: dict[str, Any]) -> str:
    words = {"region": extra.get(_REGION), "endpoint": extra.get(_ENDPOINT)}
    asked = urlencode({name: value for name, value in words.items() if value})
    return f"dynamodb://{extra.get(_TABLE) or ''}" + (f"?{asked}" if asked else "")


def _keys(kv_conn_id: str) -> AwsKeys | None:
    from airflow_dredge.operators.hooks.storage import storage_options, with_key_pair
    from dredge.kv.dynamodb import AwsKeys

    options = with_key_pair(storage_options(kv_conn_id))
    if not options.access_key_id or not options.secret_access_key:
        return None
    return AwsKeys(options.access_key_id, options.secret_access_key, options.session_token)
