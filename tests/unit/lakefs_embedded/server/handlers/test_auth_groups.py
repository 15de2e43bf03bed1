"""Groups and their members through the SDK, over a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException

from tests.support.lakefs_server import Lake


@contextmanager
def refused(status: int, words: str) -> Iterator[None]:
    with pytest.raises(ApiException) as caught:
        yield
    assert caught.value.status == status
    assert words in str(json.loads(caught.value.body)["message"])


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
