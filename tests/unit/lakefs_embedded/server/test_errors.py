"""Error bodies of every route: one form, the right status, lakeFS's messages."""

import json

import pytest
import urllib3

from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.routes import OPERATIONS, UNIMPLEMENTED
from tests.support.api_calls import QUERY, concrete, name, sample
from tests.support.lakefs_server import Lake

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
