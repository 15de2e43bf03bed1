"""The accounts cache: what a request asks, and how long a result is used."""

from datetime import UTC, datetime

import pytest

from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.auth.permissions import Action, object_arn
from lakefs_embedded.errors import AlreadySetUpError, InvalidNameError
from lakefs_embedded.kv import Store, open_store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWNER = ("admin", "OWNERKEY", "owner-secret")
PATH = object_arn("shop", "a/b")


def accounts(kv: Store, owner: tuple[str, str, str] | None = OWNER, seconds: float = 60.0) -> Accounts:
    return Accounts(kv, signing_key="k", clock=lambda: NOW, owner=owner, cache_seconds=seconds)


@pytest.mark.parametrize(
    ("group", "allowed"),
    [
        ("Admins", {Action.READ_OBJECT, Action.WRITE_OBJECT, Action.CREATE_REPOSITORY, Action.CREATE_USER,
                    Action.SET_GC_RULES}),
        ("SuperUsers", {Action.READ_OBJECT, Action.WRITE_OBJECT, Action.CREATE_REPOSITORY}),
        ("Developers", {Action.READ_OBJECT, Action.WRITE_OBJECT}),
        ("Viewers", {Action.READ_OBJECT}),
    ],
)  # fmt: skip
def test_the_first_groups_have_the_rights_of_a_real_server(group: str, allowed: set[Action]) -> None:
    found = accounts(open_store("memory://"))
    found.directory.users.create("bob")
    found.directory.groups.add_member(group, "bob")
    asked = (
        Action.READ_OBJECT,
        Action.WRITE_OBJECT,
        Action.CREATE_REPOSITORY,
        Action.CREATE_USER,
        Action.SET_GC_RULES,
    )
    assert {action for action in asked if found.allows("bob", action, PATH)} == allowed


def test_setup_makes_an_administrator_that_outlives_the_process() -> None:
    kv = open_store("memory://")
    first = accounts(kv, owner=None)
    assert not first.initialized
    made = first.setup("jane")
    again = accounts(kv, owner=None)
    assert again.initialized
    assert again.identify(made.access_key_id).secret == made.secret
    assert again.allows("jane", Action.CREATE_USER, "*")
    with pytest.raises(AlreadySetUpError):
        again.setup("bob")
    with pytest.raises(InvalidNameError):
        accounts(open_store("memory://"), owner=None).setup("a/b")
