"""Links between entities stay consistent through removals, crashes and races."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from dredge.kv import Store, open_store
from dredge.lakefs.files.messages import graveler_pb2
from lakefs_embedded.auth.directory import Directory
from lakefs_embedded.auth.errors import (
    CredentialsNotFoundError,
    GroupNotFoundError,
    PolicyNotFoundError,
    UserNotFoundError,
)
from tests.support.auth_directory import READ, directory, filled, keys, names
from tests.support.faulty import Operation, WatchedStore


def test_records_are_where_a_real_server_has_them() -> None:
    kv = open_store("memory://")
    filled(kv)
    found = keys(kv)
    assert {
        "users/user-a",
        "groups/group-a",
        "policies/policy-a",
        "uCredentials/user-a/credentials/KEY-a",
        "gUsers/group-a/users/user-b",
        "uPolicies/user-a/policies/policy-b",
        "gPolicies/group-a/policies/policy-b",
    } <= found
    assert len(found) == 6 + 2 + 12
    index = graveler_pb2.SecondaryIndex.FromString(kv.get(b"auth", b"gUsers/group-a/users/user-b"))
    assert index.primary_key == b"users/user-b"
    index = graveler_pb2.SecondaryIndex.FromString(kv.get(b"auth", b"gPolicies/group-a/policies/policy-b"))
    assert index.primary_key == b"policies/policy-b"


LINKINGS: list[tuple[str, Callable[[Directory], object], Callable[[Directory], None], str]] = [
    ("member, user goes", lambda d: d.groups.add_member("g", "user-a"), lambda d: d.users.delete("user-a"), "user-a"),
    ("member, group goes", lambda d: d.groups.add_member("g", "user-a"), lambda d: d.groups.delete("g"), "g"),
    ("policy of user", lambda d: d.policies.attach_to_user("p", "user-a"), lambda d: d.policies.delete("p"), "p"),
    ("policy of group", lambda d: d.policies.attach_to_group("p", "g"), lambda d: d.policies.delete("p"), "p"),
    ("policy, group goes", lambda d: d.policies.attach_to_group("p", "g"), lambda d: d.groups.delete("g"), "g"),
    ("key", lambda d: d.credentials.add("user-a", "NEW", "s"), lambda d: d.users.delete("user-a"), "user-a"),
]  # fmt: skip


@pytest.mark.parametrize(("link", "remove", "name"), [b[1:] for b in LINKINGS], ids=[b[0] for b in LINKINGS])
def test_linking_to_what_is_removed_meanwhile_leaves_no_link(
    link: Callable[[Directory], object], remove: Callable[[Directory], None], name: str
) -> None:
    """The removal happens whole, at each place between two operations of linking."""
    places = 0
    for place in range(50):
        kv = open_store("memory://")
        made = filled(kv)
        made.groups.create("g")
        made.policies.create("p", READ)
        seen = 0

        def at_its_place(_: Operation, kv: Store = kv, place: int = place) -> None:
            nonlocal seen
            seen += 1
            if seen == place + 1:
                remove(directory(kv))

        with contextlib.suppress(UserNotFoundError, GroupNotFoundError, PolicyNotFoundError):
            link(directory(WatchedStore(kv, before=at_its_place)))
        if seen <= place:
            break
        places += 1
        assert not {key for key in keys(kv) if name in key.split("/")}, f"removed before operation {place}"
    assert places >= 4


@pytest.mark.parametrize(("link", "remove", "name"), [b[1:] for b in LINKINGS], ids=[b[0] for b in LINKINGS])
def test_removing_what_is_linked_meanwhile_leaves_no_link(
    link: Callable[[Directory], object], remove: Callable[[Directory], None], name: str
) -> None:
    for place in range(60):
        kv = open_store("memory://")
        made = filled(kv)
        made.groups.create("g")
        made.policies.create("p", READ)
        seen = 0

        def at_its_place(_: Operation, kv: Store = kv, place: int = place) -> None:
            nonlocal seen
            seen += 1
            if seen == place + 1:
                with contextlib.suppress(UserNotFoundError, GroupNotFoundError, PolicyNotFoundError):
                    link(directory(kv))

        remove(directory(WatchedStore(kv, before=at_its_place)))
        if seen <= place:
            return
        assert not {key for key in keys(kv) if name in key.split("/")}, f"linked before operation {place}"
    raise AssertionError("the removal never ended")


def test_a_link_to_a_missing_entity_is_skipped() -> None:
    kv = open_store("memory://")
    made = filled(kv)
    kv.delete(b"auth", b"policies/policy-a")
    kv.delete(b"auth", b"users/user-b")
    assert names(made.policies.list_of_user("user-a", amount=9)) == ["policy-b"]
    assert names(made.policies.list_effective("user-a", amount=9)) == ["policy-b"]
    assert names(made.groups.list_members("group-a", amount=9)) == ["user-a"]
    with pytest.raises(CredentialsNotFoundError):
        made.credentials.find("KEY-b")
