"""Entities of the directory: listings, names, and what is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.kv import open_store
from lakefs_embedded.auth.directory import Page
from lakefs_embedded.auth.errors import (
    AlreadyExistsError,
    CredentialsNotFoundError,
    GroupNotFoundError,
    InvalidNameError,
    InvalidPolicyError,
    PolicyNotFoundError,
    UserNotFoundError,
)
from lakefs_embedded.auth.model import Statement
from tests.support.auth_directory import NAMES, READ, directory, filled, names

LISTINGS: list[tuple[str, Callable[..., Page[object]], list[str]]] = [
    ("users", lambda d, **paging: d.users.list(**paging), ["user-a", "user-b"]),
    ("groups", lambda d, **paging: d.groups.list(**paging), ["group-a", "group-b"]),
    ("policies", lambda d, **paging: d.policies.list(**paging), ["policy-a", "policy-b"]),
    ("members", lambda d, **paging: d.groups.list_members("group-a", **paging), ["user-a", "user-b"]),
    ("groups of", lambda d, **paging: d.groups.list_of_user("user-a", **paging), ["group-a", "group-b"]),
    ("of user", lambda d, **paging: d.policies.list_of_user("user-a", **paging), ["policy-a", "policy-b"]),
    ("of group", lambda d, **paging: d.policies.list_of_group("group-a", **paging), ["policy-a", "policy-b"]),
    ("effective", lambda d, **paging: d.policies.list_effective("user-a", **paging), ["policy-a", "policy-b"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("listing", "expected"), [each[1:] for each in LISTINGS], ids=[e[0] for e in LISTINGS]
)
def test_every_listing_has_pages_and_prefixes(
    listing: Callable[..., Page[object]], expected: list[str]
) -> None:
    found = filled(open_store("memory://"))
    whole = listing(found, amount=2)
    assert (names(whole), whole.has_more) == (expected, False)
    first = listing(found, amount=1)
    assert (names(first), first.next_offset) == (expected[:1], expected[0])
    rest = listing(found, amount=1, after=first.next_offset)
    assert (names(rest), rest.has_more) == (expected[1:], False)
    assert names(listing(found, amount=9, prefix=expected[1])) == expected[1:]
    assert names(listing(found, amount=9, prefix="nobody")) == []
    assert names(listing(found, amount=9, prefix=expected[0], after=expected[1])) == []
    assert names(listing(found, amount=9, prefix=expected[1][:-1], after="a")) == expected


@given(members=st.sets(NAMES, max_size=8), amount=st.integers(1, 4), prefix=st.sampled_from(["", "a", "b-"]))
def test_pages_of_a_listing_are_the_names_in_order(members: set[str], amount: int, prefix: str) -> None:
    made = directory(open_store("memory://"))
    made.users.create("u")
    for name in members:
        made.groups.create(name)
        made.groups.add_member(name, "u")
    expected = sorted(name for name in members if name.startswith(prefix))
    for listing in (made.groups.list, lambda **paging: made.groups.list_of_user("u", **paging)):
        seen: list[str] = []
        after = ""
        while True:
            page = listing(prefix=prefix, after=after, amount=amount)
            seen += names(page)
            assert len(page.results) <= amount
            if not page.has_more:
                break
            after = page.next_offset
        assert seen == expected


def test_names_are_taken_once_and_checked() -> None:
    found = filled(open_store("memory://"))
    for again in (
        lambda: found.users.create("user-a"),
        lambda: found.groups.create("group-a"),
        lambda: found.policies.create("policy-a", READ),
        lambda: found.groups.add_member("group-a", "user-a"),
        lambda: found.policies.attach_to_user("policy-a", "user-a"),
        lambda: found.policies.attach_to_group("policy-a", "group-a"),
        lambda: found.credentials.add("user-b", "KEY-a", "x"),  # an id is one user's
    ):
        with pytest.raises(AlreadyExistsError) as refused:
            again()
        assert refused.value.status == 409
    for bad in ("", "a/b", "a b", "50%", "x" * 128, "é"):
        for create in (
            found.users.create,
            found.groups.create,
            lambda name: found.policies.create(name, READ),
        ):
            with pytest.raises(InvalidNameError):
                create(bad)
    for bad in ("ab", "a/b/c", "with space"):
        with pytest.raises(InvalidNameError):
            found.credentials.add("user-a", bad, "x")
    with pytest.raises(InvalidPolicyError):
        found.policies.update("policy-a", (Statement("allow", ("x",), "*"),))
    assert found.policies.get("policy-a").statements == READ


def test_what_is_missing_is_named() -> None:
    found = filled(open_store("memory://"))
    for call, error in (
        (lambda: found.users.get("x"), UserNotFoundError),
        (lambda: found.users.delete("x"), UserNotFoundError),
        (lambda: found.groups.get("x"), GroupNotFoundError),
        (lambda: found.groups.delete("x"), GroupNotFoundError),
        (lambda: found.policies.get("x"), PolicyNotFoundError),
        (lambda: found.policies.delete("x"), PolicyNotFoundError),
        (lambda: found.policies.update("x", READ), PolicyNotFoundError),
        (lambda: found.groups.add_member("x", "user-a"), GroupNotFoundError),
        (lambda: found.groups.add_member("group-a", "x"), UserNotFoundError),
        (lambda: found.groups.remove_member("group-a", "x"), UserNotFoundError),
        (lambda: found.policies.attach_to_user("x", "user-a"), PolicyNotFoundError),
        (lambda: found.policies.detach_from_group("policy-a", "x"), GroupNotFoundError),
        (lambda: found.groups.list_members("x", amount=1), GroupNotFoundError),
        (lambda: found.groups.list_of_user("x", amount=1), UserNotFoundError),
        (lambda: found.policies.list_effective("x", amount=1), UserNotFoundError),
        (lambda: found.credentials.list("x", amount=1), UserNotFoundError),
        (lambda: found.credentials.add("x", "KEY-x", "s"), UserNotFoundError),
        (lambda: found.credentials.get("user-a", "KEY-b"), CredentialsNotFoundError),
        (lambda: found.credentials.delete("user-a", "KEY-b"), CredentialsNotFoundError),
        (lambda: found.credentials.find("KEY-x"), CredentialsNotFoundError),
    ):
        with pytest.raises(error) as refused:
            call()
        assert refused.value.status == 404
