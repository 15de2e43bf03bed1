"""A server with RBAC `none` has one user; groups, policies and more users are not to be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.routes.auth import AUTH, WITHOUT_RBAC
from tests.support.api_calls import concrete, name, sample
from tests.support.lakefs_server import Lake, lakefs_server


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake"), rbac="none") as lake:
        yield lake


@pytest.mark.parametrize("operation", [each for each in AUTH if each.name not in WITHOUT_RBAC], ids=name)
def test_what_needs_rbac_is_501(alone: Lake, operation: Operation) -> None:
    answer = alone.http(
        operation.method,
        concrete(operation.path),
        json_body=sample(operation.schema) if operation.schema else None,
    )
    assert (answer.status, answer.json()) == (501, {"message": "Not Implemented"})


def test_there_is_no_second_user(alone: Lake) -> None:
    made = alone.http("POST", "/auth/users", json_body={"id": "second"})
    assert (made.status, made.json()) == (409, {"message": "Already exists"})
    gone = alone.http("DELETE", "/auth/users/second")
    assert (gone.status, gone.json()) == (404, {"message": "user not found"})
