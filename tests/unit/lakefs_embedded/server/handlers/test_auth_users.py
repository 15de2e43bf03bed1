"""Users and their credentials through the SDK, over a real socket."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import lakefs_sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ApiException

from tests.support.lakefs_server import Lake


@contextmanager
def refused(status: int, words: str) -> Iterator[None]:
    with pytest.raises(ApiException) as caught:
        yield
    assert caught.value.status == status
    assert words in str(json.loads(caught.value.body)["message"])


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
