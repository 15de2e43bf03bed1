"""A secret in any field of a connection, as JSON or as a URI, is in no message, no log and no `repr`."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import pytest

from airflow_dredge.operators.hooks.connections import need_connection
from airflow_dredge.operators.hooks.kv import LakeFSKVConnection
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from dredge.errors import DefectError, DredgeError
from tests.support.secrets import AWKWARD, SECRET, failure_of, words_of

_READERS: Mapping[str, Callable[[], object]] = {
    "lakefs": lambda: LakeFSHook("planted").client,
    "aws": lambda: storage_options("planted"),
    "wasb": lambda: storage_options("planted"),
    "google_cloud_platform": lambda: storage_options("planted"),
    "postgres": lambda: LakeFSKVConnection.read("planted").reader(),
    "spark": lambda: need_connection("planted", "Spark", "{}"),
}
_WHOLE = {"host": "http://127.0.0.1:1", "login": "key", "password": "word"}
_EXTRAS = (
    *("password", "endpoint_url", "region_name", "aws_session_token", "role_arn", "profile_name"),
    *("sas_token", "connection_string", "tenant_id", "keyfile_dict", "key_path", "impersonation_chain"),
    *("sslpassword", "options", "sslmode", "connect_timeout", "service"),
)


def _planted(kind: str) -> list[str]:
    whole = {"conn_type": kind, **_WHOLE} | ({"host": "127.0.0.1", "port": 1} if kind == "postgres" else {})
    names = ["login", "password"] + (
        [] if kind == "postgres" else ["schema"]
    )  # a database has a name in messages
    fields: list[dict[str, Any]] = [whole | {name: SECRET} for name in names]
    fields += [whole | {"host": f"{scheme}me:{SECRET}@127.0.0.1:1"} for scheme in ("", "http://")]
    fields += [whole | {"password": password} for password in AWKWARD]
    fields += [whole | {"extra": {name: SECRET}} for name in _EXTRAS]
    fields += [whole | {"extra": {name: f"http://me:{SECRET}@127.0.0.1"}} for name in _EXTRAS]
    fields += [whole | {"extra": f"{{broken {SECRET}"}, whole | {"port": SECRET}, whole | {SECRET: SECRET}]
    broken = [
        f'{{"conn_type": "{kind}", "password": "{SECRET}',
        SECRET,
        f"{kind}://{kind}://me:{SECRET}@h://x",
    ]
    uris = [f"{kind}://me:{password}@127.0.0.1:1/db?a={SECRET}" for password in AWKWARD]
    uris += [
        f"{kind}://127.0.0.1:{SECRET}/db",
        f"{kind}://[{SECRET}/db",
        f"{kind}://127.0.0.1:1/db?__extra__={SECRET}",
    ]
    return [*(json.dumps(each) for each in fields), *broken, *uris]


@pytest.mark.parametrize("kind", _READERS)
def test_a_secret_in_any_place_of_a_connection_is_not_told(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    caplog.set_level("DEBUG", "dredge")
    caplog.set_level("DEBUG", "airflow_dredge")
    for value in _planted(kind):
        with mock.patch.dict(os.environ, {"AIRFLOW_CONN_PLANTED": value}):
            error = failure_of(_READERS[kind])
        if error is not None:
            assert isinstance(error, DredgeError), value
            assert not isinstance(error, DefectError), value
            assert SECRET not in words_of(error), value
        told = [record.getMessage() for record in caplog.records if SECRET in caplog.handler.format(record)]
        assert told == [], value
        caplog.clear()
