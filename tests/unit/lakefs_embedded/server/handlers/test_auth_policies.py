"""Policies through the SDK, and what they allow, over a real socket."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import lakefs_sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ApiException

from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.routes import AUTH, WITHOUT_RBAC
from tests.support.api_calls import concrete, name, sample
from tests.support.lakefs_server import Lake, lakefs_server

READ = lakefs_sdk.Statement(effect="allow", action=["fs:Read*", "fs:List*"], resource="*")


@contextmanager
def refused(status: int, words: str) -> Iterator[None]:
    with pytest.raises(ApiException) as caught:
        yield
    assert caught.value.status == status
    assert words in str(json.loads(caught.value.body)["message"])


def policy(name: str, *statements: lakefs_sdk.Statement) -> lakefs_sdk.Policy:
    return lakefs_sdk.Policy(id=name, statement=list(statements or (READ,)))


def test_policies_are_checked_replaced_and_removed(lake: Lake) -> None:
    auth = lake.sdk.auth_api
    made = auth.create_policy(policy=policy("read"))
    assert made.statement == [READ]
    assert auth.get_policy("read") == made
    changed = lakefs_sdk.Statement(effect="deny", action=["fs:*"], resource="arn:lakefs:fs:::repository/x*")
    assert auth.update_policy("read", policy("read", changed)).statement == [changed]
    assert auth.get_policy("read").statement == [changed]
    with refused(400, "can't update policy id"):
        auth.update_policy("read", policy("other"))
    with refused(409, "Already exists"):
        auth.create_policy(policy=policy("read"))
    for missing in (auth.get_policy, auth.delete_policy, lambda name: auth.update_policy(name, policy(name))):
        with refused(404, "policy not found"):
            missing("nobody")
    for statement, words in (
        ({"effect": "permit", "action": ["fs:*"], "resource": "*"}, "effect 'permit'"),
        ({"effect": "allow", "action": ["s3:*"], "resource": "*"}, "invalid service name"),
        ({"effect": "allow", "action": ["fs:*"], "resource": "shop"}, "resource 'shop'"),
        ({"effect": "allow", "action": [], "resource": "*"}, "needs an action"),
        ({"effect": "allow", "resource": "*"}, 'property "action" is missing'),
        (
            {"effect": "allow", "action": ["fs:*"], "resource": "*",
             "condition": {"IpAddress": {"SourceIp": ["10.0.0.0/8"]}}},
            "conditions of statements are not supported",
        ),
    ):  # fmt: skip
        response = lake.http("POST", "/auth/policies", json_body={"id": "bad", "statement": [statement]})
        assert response.status == 400
        assert words in json.loads(response.data)["message"]
    auth.delete_policy("read")
    assert "read" not in {each.id for each in auth.list_policies().results}


def test_policies_of_users_and_groups_and_what_is_effective(lake: Lake) -> None:
    auth = lake.sdk.auth_api
    auth.create_user(user_creation=lakefs_sdk.UserCreation(id="bob"))
    auth.add_group_membership("Viewers", "bob")
    auth.create_policy(policy=policy("extra"))
    auth.attach_policy_to_user("bob", "extra")
    auth.attach_policy_to_group("Viewers", "extra")
    with refused(409, "Already exists"):
        auth.attach_policy_to_user("bob", "extra")
    assert [each.id for each in auth.list_user_policies("bob").results] == ["extra"]
    assert [each.id for each in auth.list_user_policies("bob", effective=True).results] == [
        "AuthManageOwnCredentials",
        "FSReadAll",
        "extra",
    ]
    assert [each.id for each in auth.list_group_policies("Viewers").results] == [
        "AuthManageOwnCredentials",
        "FSReadAll",
        "extra",
    ]
    auth.detach_policy_from_user("bob", "extra")
    assert auth.list_user_policies("bob").results == []
    assert "extra" in {each.id for each in auth.list_user_policies("bob", effective=True).results}
    auth.detach_policy_from_group("Viewers", "extra")
    assert "extra" not in {each.id for each in auth.list_user_policies("bob", effective=True).results}
    for call, words in (
        (lambda: auth.attach_policy_to_user("nobody", "extra"), "user not found"),
        (lambda: auth.attach_policy_to_user("bob", "nobody"), "policy not found"),
        (lambda: auth.detach_policy_from_user("bob", "nobody"), "policy not found"),
        (lambda: auth.attach_policy_to_group("nobody", "extra"), "group not found"),
        (lambda: auth.detach_policy_from_group("nobody", "extra"), "group not found"),
        (lambda: auth.list_user_policies("nobody"), "user not found"),
        (lambda: auth.list_user_policies("nobody", effective=True), "user not found"),
        (lambda: auth.list_group_policies("nobody"), "group not found"),
    ):
        with refused(404, words):
            call()


# Users and their credentials through the SDK, over a real socket.


def test_users_are_made_read_listed_and_removed(lake: Lake) -> None:
    auth = lake.sdk.auth_api
    made = auth.create_user(user_creation=lakefs_sdk.UserCreation(id="jane@example.com"))
    assert made.id == "jane@example.com"
    assert abs(made.creation_date - time.time()) < 60
    assert auth.get_user("jane@example.com") == made
    assert [each.id for each in auth.list_users().results] == ["admin", "jane@example.com"]
    with refused(409, "Already exists"):
        auth.create_user(user_creation=lakefs_sdk.UserCreation(id="jane@example.com"))
    with refused(400, "cannot contain '%'"):
        auth.create_user(user_creation=lakefs_sdk.UserCreation(id="50%"))
    with refused(400, "validation error"):
        auth.create_user(user_creation=lakefs_sdk.UserCreation(id="a/b"))
    auth.delete_user("jane@example.com")
    for missing in (auth.get_user, auth.delete_user):
        with refused(404, "user not found"):
            missing("jane@example.com")


def test_credentials_show_their_secret_once_and_work_until_they_are_removed(lake: Lake) -> None:
    auth = lake.sdk.auth_api
    auth.create_user(user_creation=lakefs_sdk.UserCreation(id="bob"))
    made = auth.create_credentials("bob")
    assert len(made.access_key_id) == 20
    assert len(made.secret_access_key) == 40
    bob = LakeFSClient(
        Configuration(host=lake.server.endpoint, username=made.access_key_id, password=made.secret_access_key)
    )
    assert bob.auth_api.get_current_user().user.id == "bob"
    listed = lake.http("GET", "/auth/users/bob/credentials")
    assert b"secret" not in listed.data
    assert [each["access_key_id"] for each in json.loads(listed.data)["results"]] == [made.access_key_id]
    got = auth.get_credentials("bob", made.access_key_id)
    assert got.creation_date == made.creation_date
    auth.delete_credentials("bob", made.access_key_id)
    with refused(401, "error authenticating request"):
        bob.auth_api.get_current_user()
    for missing in (auth.get_credentials, auth.delete_credentials):
        with refused(404, "credentials not found"):
            missing("bob", made.access_key_id)
    for call in (auth.list_user_credentials, auth.create_credentials):
        with refused(404, "user not found"):
            call("nobody")


def test_the_servers_own_administrator_stays(lake: Lake) -> None:
    with refused(403, "own administrator cannot be removed"):
        lake.sdk.auth_api.delete_user("admin")
    assert lake.sdk.auth_api.get_current_user().user.id == "admin"


# Groups and their members through the SDK, over a real socket.


def test_groups_and_members(lake: Lake) -> None:
    auth = lake.sdk.auth_api
    made = auth.create_group(group_creation=lakefs_sdk.GroupCreation(id="team", description="us"))
    assert (made.id, made.name, made.description) == ("team", "team", "us")
    assert auth.get_group("team") == made
    assert [each.id for each in auth.list_groups().results] == [
        "Admins",
        "Developers",
        "SuperUsers",
        "Viewers",
        "team",
    ]
    for user in ("bob", "ann"):
        auth.create_user(user_creation=lakefs_sdk.UserCreation(id=user))
        auth.add_group_membership("team", user)
    with refused(409, "Already exists"):
        auth.add_group_membership("team", "bob")
    assert [each.id for each in auth.list_group_members("team").results] == ["ann", "bob"]
    assert [each.id for each in auth.list_user_groups("bob").results] == ["team"]
    auth.delete_group_membership("team", "bob")
    assert [each.id for each in auth.list_group_members("team").results] == ["ann"]
    for call, words in (
        (lambda: auth.add_group_membership("nobody", "bob"), "group not found"),
        (lambda: auth.add_group_membership("team", "nobody"), "user not found"),
        (lambda: auth.delete_group_membership("team", "nobody"), "user not found"),
        (lambda: auth.list_group_members("nobody"), "group not found"),
        (lambda: auth.list_user_groups("nobody"), "user not found"),
        (lambda: auth.get_group("nobody"), "group not found"),
        (lambda: auth.delete_group("nobody"), "group not found"),
    ):
        with refused(404, words):
            call()
    auth.delete_group("team")
    assert auth.list_user_groups("ann").results == []
    auth.create_group(group_creation=lakefs_sdk.GroupCreation(id="team"))
    assert auth.list_group_members("team").results == []


# A server with RBAC `none` has one user; groups, policies and more users are not to be had.


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
