"""Entities of the directory: listings, names, and what is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.kv import open_store
from lakefs_embedded.auth.directory import Page
from lakefs_embedded.auth.errors import (
    AlreadyExistsError,
    InvalidNameError,
    InvalidPolicyError,
)
from lakefs_embedded.auth.model import Statement
from tests.support.auth_directory import READ, filled, names

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
