"""The accounts cache: what a request asks, and how long a result is used."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dredge.kv import Store, open_store
from lakefs_embedded.auth import Accounts, Action, UnknownKeyError, object_arn
from lakefs_embedded.auth.accounts import Cache
from lakefs_embedded.auth.errors import (
    AlreadySetUpError,
    InvalidNameError,
    OwnerError,
)
from lakefs_embedded.auth.model import SETUP_KEY
from tests.support.faulty import CrashError, Operation, WatchedStore, crash_after_writes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWNER = ("admin", "OWNERKEY", "owner-secret")
PATH = object_arn("shop", "a/b")


def accounts(
    kv: Store | WatchedStore, owner: tuple[str, str, str] | None = OWNER, seconds: float = 60.0
) -> Accounts:
    return Accounts(kv, signing_key="k", clock=lambda: NOW, owner=owner, cache_seconds=seconds)  # type: ignore[arg-type]


def test_the_owner_cannot_be_removed_and_no_policy_limits_it() -> None:
    found = accounts(open_store("memory://"))
    with pytest.raises(OwnerError):
        found.check_removable("admin")
    found.check_removable("somebody")
    found.directory.groups.remove_member("Admins", "admin")
    assert found.allows("admin", Action.WRITE_OBJECT, PATH)


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


def test_a_change_counts_at_once() -> None:
    found = accounts(open_store("memory://"))
    book = found.directory
    book.users.create("bob")
    with pytest.raises(UnknownKeyError):
        found.identify("BOBKEY")
    book.credentials.add("bob", "BOBKEY", "s")
    assert found.identify("BOBKEY").secret == "s"
    assert not found.allows("bob", Action.READ_OBJECT, PATH)
    book.groups.add_member("Viewers", "bob")
    assert found.allows("bob", Action.READ_OBJECT, PATH)
    book.policies.detach_from_group("FSReadAll", "Viewers")
    assert not found.allows("bob", Action.READ_OBJECT, PATH)
    book.policies.attach_to_user("FSReadAll", "bob")
    assert found.allows("bob", Action.READ_OBJECT, PATH)
    book.users.delete("bob")
    assert not found.allows("bob", Action.READ_OBJECT, PATH)
    for ask in (lambda: found.identify("BOBKEY"), lambda: found.user("bob")):
        with pytest.raises(UnknownKeyError):
            ask()


def test_a_change_by_another_process_counts_after_some_seconds() -> None:
    kv = open_store("memory://")
    here, there = accounts(kv), accounts(kv)
    at_once = accounts(kv, seconds=0)
    there.directory.users.create("bob")
    there.directory.credentials.add("bob", "BOBKEY", "s")
    assert here.identify("BOBKEY").user == "bob"
    there.directory.users.delete("bob")
    assert here.identify("BOBKEY").user == "bob"
    with pytest.raises(UnknownKeyError):
        at_once.identify("BOBKEY")


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


def test_setup_that_crashed_anywhere_can_be_done_again_with_the_same_key() -> None:
    for count in range(100):
        kv = open_store("memory://")
        try:
            accounts(crash_after_writes(kv, count), owner=None).setup("jane", ("JANEKEY", "one"))
            break
        except CrashError:
            found = accounts(kv, owner=None)
            if found.initialized:  # the moment is written last
                assert found.identify("JANEKEY").secret == "one"
                continue
            found.setup("jane", ("JANEKEY", "two"))
            assert found.identify("JANEKEY").secret == "two"
            assert found.allows("jane", Action.WRITE_OBJECT, PATH)
    assert count > 20


def test_of_two_setups_at_once_one_user_is_let_in() -> None:
    kv = open_store("memory://")
    winner = accounts(kv, owner=None)

    def win_first(operation: Operation) -> None:
        if operation.key == SETUP_KEY and operation.writes:
            winner.setup("jane", ("JANEKEY", "j"))

    loser = accounts(WatchedStore(kv, before=win_first), owner=None)
    with pytest.raises(AlreadySetUpError):
        loser.setup("bob", ("BOBKEY", "b"))
    assert winner.identify("JANEKEY").user == "jane"
    with pytest.raises(UnknownKeyError):
        accounts(kv, owner=None).identify("BOBKEY")
    assert [each.name for each in winner.directory.users.list(amount=9).results] == ["jane"]


def test_answers_end_and_strangers_do_not_fill_the_memory() -> None:
    now = [0.0]
    cache: Cache[int] = Cache(5, entries=3, monotonic=lambda: now[0])
    assert cache.get("x", lambda _: 1) == 1
    assert cache.peek("x") == 1
    now[0] = 4.9
    assert cache.get("x", lambda _: 2) == 1
    now[0] = 5
    assert cache.peek("x") is None
    assert cache.get("x", lambda _: 2) == 2
    for number in range(100):
        cache.get(str(number), lambda _: 0)
        assert len(cache._values) <= 3
