"""Error bodies of every route: one form, the right status, lakeFS's messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import urllib3

from dredge.kv import open_store
from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.routes import OPERATIONS, UNIMPLEMENTED
from tests.support.api_calls import QUERY, concrete, name, sample
from tests.support.lakefs_server import Lake, WatchedStore, lakefs_server

GUARDED = [each for each in OPERATIONS if not each.public]
OF_A_REPOSITORY = [each for each in GUARDED if "{repository}" in each.path]


def assert_error(response: urllib3.BaseHTTPResponse, status: int) -> str:
    assert response.status == status
    if response.headers.get("Content-Length") == "0" or not response.data:
        return ""
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.data.endswith(b"}\n")
    body = json.loads(response.data)
    assert list(body) == ["message"]
    assert body["message"]
    return str(body["message"])


@pytest.mark.parametrize("operation", GUARDED, ids=name)
def test_no_call_is_served_without_credentials(shared_lake: Lake, operation: Operation) -> None:
    for pair in (None, ("wrong", "pair"), (shared_lake.server.access_key_id, "wrong")):
        response = shared_lake.http(
            operation.method,
            concrete(operation.path),
            query=QUERY,
            json_body=sample(operation.schema),
            credentials=pair,
        )
        message = assert_error(response, 401)
        assert message == ("" if operation.method == "HEAD" else "error authenticating request")


@pytest.mark.parametrize("operation", OF_A_REPOSITORY, ids=name)
def test_an_unknown_repository_is_404_on_every_route(shared_lake: Lake, operation: Operation) -> None:
    response = shared_lake.http(
        operation.method, concrete(operation.path), query=QUERY, json_body=sample(operation.schema)
    )
    message = assert_error(response, 404)
    assert message == ("" if operation.method == "HEAD" else "repository not found")


@pytest.mark.parametrize(("method", "path"), UNIMPLEMENTED)
def test_what_lakefs_has_and_this_server_has_not_is_501(shared_lake: Lake, method: str, path: str) -> None:
    assert assert_error(shared_lake.http(method, concrete(path)), 501) == "Not Implemented"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/repositories/", "repository"),
        ("/repositories//branches", "repository"),
        ("/repositories/lake/branches/", "branch"),
        ("/repositories/lake/branches//commits", "branch"),
        ("/repositories/lake/tags/", "tag"),
        ("/repositories/lake/refs//objects?path=a", "ref"),
    ],
)
def test_an_empty_name_in_a_path_is_400(shared_lake: Lake, path: str, name: str) -> None:
    message = assert_error(shared_lake.http("GET", path), 400)
    assert message == f'parameter "{name}" in path has an error: empty value is not allowed'


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/repositories?amount=1001", "number must be at most 1000"),
        ("/repositories?amount=-2", "number must be at least -1"),
        ("/repositories?amount=ten", "an invalid integer"),
        ("/repositories/lake/branches?show_hidden=yes", "an invalid boolean"),
        ("/repositories/lake/refs/main/objects/stat", "value is required but missing"),
        ("/repositories/lake/refs/main/objects", "value is required but missing"),
        ("/repositories/lake/gc/prepare_commits/status", "value is required but missing"),
        ("/repositories/lake/refs/main/diff/main?type=four_dot", "not one of the allowed values"),
        ("/repositories/lake/refs/main/commits?since=yesterday", "an invalid date-time"),
        ("/repositories/lake/refs/main/objects/stat?path=%ff", "not UTF-8"),
    ],
)
def test_a_wrong_parameter_is_400_and_named(shared_lake: Lake, path: str, words: str) -> None:
    assert words in assert_error(shared_lake.http("GET", path), 400)


def test_an_unforeseen_failure_is_500_without_its_innards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_operation: str, partition: bytes, _key: bytes) -> None:
        if partition == b"graveler":
            raise RuntimeError("password=hunter2")

    with lakefs_server(tmp_path, kv=WatchedStore(open_store("memory://"), broken)) as lake:
        message = assert_error(lake.http("GET", "/repositories/lake"), 500)
    assert message == "internal error: RuntimeError"
    assert "hunter2" in caplog.text  # the log, for whoever runs the server, has it all


def test_the_access_log_names_requests_and_no_secrets(
    shared_lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="lakefs_embedded.server.access")
    shared_lake.http("GET", "/repositories/lake/refs/main/objects/stat", query={"path": "a b\nc"})
    login = {
        "access_key_id": shared_lake.server.access_key_id,
        "secret_access_key": shared_lake.server.secret_access_key,
    }
    shared_lake.http("POST", "/auth/login", json_body=login)
    assert "GET /api/v1/repositories/lake/refs/main/objects/stat?path=a+b%0Ac 404" in caplog.text
    assert shared_lake.server.secret_access_key not in caplog.text
    assert "Authorization" not in caplog.text
