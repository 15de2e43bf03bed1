"""Every route checks its permission, tried on each row of the route table."""

import json

import pytest
from starlette.datastructures import QueryParams

from lakefs_embedded.auth.model import Statement
from lakefs_embedded.auth.permissions import Permission
from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.requests import Query
from lakefs_embedded.server.routes import OPERATIONS
from tests.support.api_calls import QUERY, concrete, name, sample
from tests.support.lakefs_server import Lake

NOBODY = ("NOBODYKEY", "nobody")
EXACT = ("EXACTKEY", "exact")

GUARDED = [each for each in OPERATIONS if each.permissions]


@pytest.fixture(scope="module")
def guarded_lake(shared_lake: Lake) -> Lake:
    """A repository with an object, and two users: one without rights, one for exact rights."""
    shared_lake.repository("shop").branch("main").object("a/b").upload(b"x")
    directory = shared_lake.server.accounts.directory
    for user, pair in (("nobody", NOBODY), ("exact", EXACT)):
        directory.users.create(user)
        directory.credentials.add(user, *pair)
    directory.policies.create("exact", (Statement("allow", ("fs:ReadConfig",), "*"),))
    directory.policies.attach_to_user("exact", "exact")
    return shared_lake


def ask(lake: Lake, operation: Operation, pair: tuple[str, str]) -> tuple[int, str]:
    """Send the table's request; gives the status and the message of the answer."""
    response = lake.http(
        operation.method,
        concrete(operation.path, "shop"),
        query=QUERY,
        json_body=sample(operation.schema),
        credentials=pair,
    )
    if operation.method == "HEAD" or not response.data.startswith(b'{"message"'):
        return response.status, ""
    return response.status, str(json.loads(response.data.splitlines()[0])["message"])


def needed(operation: Operation) -> list[Permission]:
    path = dict.fromkeys(("branch", "tag", "ref", "user", "group", "policy", "source"), "main")
    body = sample(operation.schema) or {}
    query = Query(QueryParams(dict(QUERY)))
    return [each.resolve(path | {"repository": "shop"}, query, body) for each in operation.permissions or ()]


@pytest.mark.parametrize("operation", GUARDED, ids=name)
def test_a_user_without_policies_is_refused_by_every_call(guarded_lake: Lake, operation: Operation) -> None:
    status, message = ask(guarded_lake, operation, NOBODY)
    assert status == 401
    if operation.method != "HEAD":
        assert message == f"insufficient permissions: not allowed to {needed(operation)[0].action}"


def test_a_bulk_delete_looks_at_each_path(guarded_lake: Lake) -> None:
    for path in ("mine/x", "theirs/x"):
        guarded_lake.http("POST", "/repositories/shop/branches/main/objects", query={"path": path}, body=b"x")
    directory = guarded_lake.server.accounts.directory
    own = Statement("allow", ("fs:DeleteObject",), "arn:lakefs:fs:::repository/shop/object/mine/*")
    directory.policies.update("exact", (own,))
    response = guarded_lake.http(
        "POST",
        "/repositories/shop/branches/main/objects/delete",
        json_body={"paths": ["mine/x", "theirs/x"]},
        credentials=EXACT,
    )
    assert response.status == 200
    assert json.loads(response.data) == {
        "errors": [{"message": "Unauthorized", "path": "theirs/x", "status_code": 401}]
    }
    listed = guarded_lake.http("GET", "/repositories/shop/refs/main/objects/ls", query={"prefix": ""})
    paths = [each["path"] for each in json.loads(listed.data)["results"]]
    assert "theirs/x" in paths
    assert "mine/x" not in paths
    refused = guarded_lake.http(
        "POST",
        "/repositories/shop/branches/main/objects/delete",
        json_body={"paths": ["theirs/x"]},
        credentials=NOBODY,
    )
    assert json.loads(refused.data)["errors"][0]["status_code"] == 401
