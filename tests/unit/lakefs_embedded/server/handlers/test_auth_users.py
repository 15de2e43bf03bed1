"""Users and their credentials through the SDK, over a real socket."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lakefs_sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ApiException

from tests.support.lakefs_server import Lake

READ = lakefs_sdk.Statement(effect="allow", action=["fs:Read*", "fs:List*"], resource="*")


@contextmanager
def refused(status: int, words: str) -> Iterator[None]:
    with pytest.raises(ApiException) as caught:
        yield
    assert caught.value.status == status
    assert words in str(json.loads(caught.value.body)["message"])


def policy(name: str, *statements: lakefs_sdk.Statement) -> lakefs_sdk.Policy:
    return lakefs_sdk.Policy(id=name, statement=list(statements or (READ,)))


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


LISTINGS: list[Callable[..., Any]] = [
    lambda auth, **paging: auth.list_users(**paging),
    lambda auth, **paging: auth.list_groups(**paging),
    lambda auth, **paging: auth.list_policies(**paging),
    lambda auth, **paging: auth.list_group_members("n-0", **paging),
    lambda auth, **paging: auth.list_user_groups("n-0", **paging),
    lambda auth, **paging: auth.list_user_policies("n-0", **paging),
    lambda auth, **paging: auth.list_user_policies("n-0", effective=True, **paging),
    lambda auth, **paging: auth.list_group_policies("n-0", **paging),
]


def test_every_listing_is_in_order_and_paged(lake: Lake) -> None:
    auth = lake.sdk.auth_api
    names = [f"n-{number}" for number in range(5)]
    for each in reversed(names):
        auth.create_user(user_creation=lakefs_sdk.UserCreation(id=each))
        auth.create_group(group_creation=lakefs_sdk.GroupCreation(id=each))
        auth.create_policy(policy=policy(each))
    for each in names:
        auth.add_group_membership("n-0", each)
        if each != "n-0":
            auth.add_group_membership(each, "n-0")
        auth.attach_policy_to_user("n-0", each)
        auth.attach_policy_to_group("n-0", each)
    for listing in LISTINGS:
        seen: list[str] = []
        after = ""
        while True:
            found = listing(auth, prefix="n-", after=after, amount=2)
            assert len(found.results) <= 2
            assert found.pagination.results == len(found.results)
            seen += [each.id for each in found.results]
            if not found.pagination.has_more:
                assert found.pagination.next_offset == ""
                break
            after = found.pagination.next_offset
        assert seen == names
    for path in ("users", "groups", "policies"):
        assert lake.http("GET", f"/auth/{path}", query={"amount": 1001}).status == 400


def test_the_servers_own_administrator_stays(lake: Lake) -> None:
    with refused(403, "own administrator cannot be removed"):
        lake.sdk.auth_api.delete_user("admin")
    assert lake.sdk.auth_api.get_current_user().user.id == "admin"
