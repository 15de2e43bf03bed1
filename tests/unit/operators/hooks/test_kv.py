"""A connection of a database, turned into the address of lakeFS's key-value store."""

import json
from typing import Any

import psycopg
import pytest

from airflow_dredge.operators.hooks.kv import LakeFSKVConnection
from dredge.errors import ConfigError
from tests.support.airflow import connections

PASSWORD = "p%ss/w@rd:s3cret"


def test_connections_become_urls_and_keep_their_secrets() -> None:
    postgres = {"conn_type": "postgres", "host": "db", "port": 5433, "schema": "lake fs", "login": "me@x"}
    table = {"dynamodb_table": "kvstore", "region_name": "eu-west-1"}
    with connections(
        one=postgres | {"password": PASSWORD, "extra": json.dumps({"sslmode": "require"})},
        two={"conn_type": "aws", "login": "AKIA", "password": PASSWORD, "extra": json.dumps(table)},
        three={"conn_type": "sqlite", "host": "/data/kv.db"},
        four={"conn_type": "mysql", "host": "db"},
    ):
        one, two = LakeFSKVConnection.read("one"), LakeFSKVConnection.read("two")
        parsed = psycopg.conninfo.conninfo_to_dict(one.url)
        assert parsed == {
            "user": "me@x",
            "password": PASSWORD,
            "host": "db",
            "port": "5433",
            "dbname": "lake fs",
            "sslmode": "require",
        }
        assert two.url == "dynamodb://kvstore?region=eu-west-1"
        assert two.keys is not None
        assert two.keys.secret_access_key == PASSWORD
        assert "s3cret" not in repr([one, two, two.keys])
        assert LakeFSKVConnection.read("three").url == "sqlite:///data/kv.db"
        with pytest.raises(ConfigError):
            LakeFSKVConnection.read("four")


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        (
            {"host": "/run/pg", "login": "a/b", "schema": "lakefs"},
            "postgresql://a%2Fb@/lakefs?host=%2Frun%2Fpg",
        ),
        ({"host": "/run/pg", "port": 5433}, "postgresql://@/?host=%2Frun%2Fpg&port=5433"),
        ({"host": "[::1]", "port": 5432, "login": "me"}, "postgresql://me@[::1]:5432/"),
        ({"host": "db", "schema": "lakefs"}, "postgresql://@db/lakefs"),
        ({"schema": "lakefs"}, "postgresql://@/lakefs"),
        (
            {"host": "db", "extra": {"connect_timeout": 5, "hosts": ["a"]}},
            "postgresql://@db/?connect_timeout=5",
        ),
    ],
)
def test_a_postgres_connection_may_leave_out_what_libpq_knows(fields: dict[str, Any], url: str) -> None:
    with connections(kv={"conn_type": "postgres", **fields}):
        assert LakeFSKVConnection.read("kv").url == url


def test_a_login_by_a_token_of_a_cloud_is_refused() -> None:
    given = {"conn_type": "postgres", "host": "db", "extra": {"iam": True}}
    with connections(kv=given), pytest.raises(ConfigError):
        LakeFSKVConnection.read("kv")
