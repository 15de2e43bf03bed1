"""Users, groups, policies and credentials in the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.auth import model
from dredge.auth.directory import Directory, Page
from dredge.auth.errors import (
    AlreadyExistsError,
    CredentialsNotFoundError,
    GroupNotFoundError,
    InvalidNameError,
    InvalidPolicyError,
    PolicyNotFoundError,
    UserNotFoundError,
)
from dredge.auth.model import Credential, Statement
from dredge.auth.secrets import SecretBox
from dredge.errors import FormatError
from dredge.graveler.messages import graveler_pb2
from dredge.kv import Store, open_store
from tests.support.faulty import CrashError, Operation, WatchedStore, crash_after_writes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
READ = (Statement("allow", ("fs:Read*",), "*"),)
# Characters before the slash in the alphabet: a careless key order would mix names up.
NAMES = st.text(alphabet="ab+,-.=@_", min_size=1, max_size=4)


def directory(kv: Store | WatchedStore, changed: Callable[[], None] = lambda: None) -> Directory:
    return Directory(kv, SecretBox("signing"), lambda: NOW, changed)  # type: ignore[arg-type]


def filled(kv: Store | WatchedStore) -> Directory:
    """Two of each, everything bound to everything."""
    made = directory(kv)
    for letter in "ab":
        made.create_user(f"user-{letter}")
        made.create_group(f"group-{letter}")
        made.create_policy(f"policy-{letter}", READ)
    for left in "ab":
        made.add_credential(f"user-{left}", f"KEY-{left}", "secret")
        for right in "ab":
            made.add_member(f"group-{left}", f"user-{right}")
            made.attach_to_group(f"policy-{left}", f"group-{right}")
            made.attach_to_user(f"policy-{left}", f"user-{right}")
    return made


def keys(kv: Store) -> set[str]:
    return {entry.key.decode() for entry in kv.scan(model.PARTITION)}


def names[T](page: Page[T]) -> list[str]:
    return [each.access_key_id if isinstance(each, Credential) else each.name for each in page.results]  # type: ignore[attr-defined]


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


def test_what_is_read_is_what_was_written() -> None:
    found = filled(open_store("memory://"))
    assert found.get_user("user-a") == model.User("user-a", NOW)
    assert found.create_group("g", "all of us") == found.get_group("g") == model.Group("g", NOW, "all of us")
    assert found.get_policy("policy-a") == model.Policy("policy-a", NOW, READ)
    assert found.get_credential("user-a", "KEY-a") == Credential("user-a", "KEY-a", "", NOW)
    assert found.find_credential("KEY-a").secret == "secret"


def test_no_secret_is_stored_in_clear_and_none_opens_elsewhere() -> None:
    kv = open_store("memory://")
    found = filled(kv)
    found.add_credential("user-a", "KEY-2", "hunter2-hunter2")
    assert all(b"hunter2" not in entry.value for entry in kv.scan(b"auth"))
    with pytest.raises(FormatError):
        Directory(kv, SecretBox("another key"), lambda: NOW).find_credential("KEY-2")
    # a sealed secret put into another's record does not open there
    stolen = kv.get(b"auth", b"uCredentials/user-a/credentials/KEY-2")
    kv.set(b"auth", b"uCredentials/user-b/credentials/KEY-b", stolen)
    with pytest.raises(FormatError):
        found.find_credential("KEY-b")


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    box = SecretBox("k")
    assert box.seal("s", b"x") != box.seal("s", b"x")
    assert box.open(box.seal("sécret", b"x"), b"x") == "sécret"
    for damaged in (b"", b"\x01", b"\x02" + box.seal("s", b"x")[1:], box.seal("s", b"x")[:-1]):
        with pytest.raises(FormatError):
            box.open(damaged, b"x")


LISTINGS: list[tuple[str, Callable[..., Page[object]], list[str]]] = [
    ("users", lambda d, **paging: d.list_users(**paging), ["user-a", "user-b"]),
    ("groups", lambda d, **paging: d.list_groups(**paging), ["group-a", "group-b"]),
    ("policies", lambda d, **paging: d.list_policies(**paging), ["policy-a", "policy-b"]),
    ("members", lambda d, **paging: d.list_members("group-a", **paging), ["user-a", "user-b"]),
    ("groups of", lambda d, **paging: d.list_groups_of("user-a", **paging), ["group-a", "group-b"]),
    ("of user", lambda d, **paging: d.list_user_policies("user-a", **paging), ["policy-a", "policy-b"]),
    ("of group", lambda d, **paging: d.list_group_policies("group-a", **paging), ["policy-a", "policy-b"]),
    ("effective", lambda d, **paging: d.list_effective_policies("user-a", **paging), ["policy-a", "policy-b"]),
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
    made.create_user("u")
    for name in members:
        made.create_group(name)
        made.add_member(name, "u")
    expected = sorted(name for name in members if name.startswith(prefix))
    for listing in (made.list_groups, lambda **paging: made.list_groups_of("u", **paging)):
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
        lambda: found.create_user("user-a"),
        lambda: found.create_group("group-a"),
        lambda: found.create_policy("policy-a", READ),
        lambda: found.add_member("group-a", "user-a"),
        lambda: found.attach_to_user("policy-a", "user-a"),
        lambda: found.attach_to_group("policy-a", "group-a"),
        lambda: found.add_credential("user-b", "KEY-a", "x"),  # an id is one user's
    ):
        with pytest.raises(AlreadyExistsError) as refused:
            again()
        assert refused.value.status == 409
    for bad in ("", "a/b", "a b", "50%", "x" * 128, "é"):
        for create in (found.create_user, found.create_group, lambda name: found.create_policy(name, READ)):
            with pytest.raises(InvalidNameError):
                create(bad)
    for bad in ("ab", "a/b/c", "with space"):
        with pytest.raises(InvalidNameError):
            found.add_credential("user-a", bad, "x")
    with pytest.raises(InvalidPolicyError):
        found.update_policy("policy-a", (Statement("allow", ("x",), "*"),))
    assert found.get_policy("policy-a").statements == READ


def test_what_is_missing_is_named() -> None:
    found = filled(open_store("memory://"))
    for call, error in (
        (lambda: found.get_user("x"), UserNotFoundError),
        (lambda: found.delete_user("x"), UserNotFoundError),
        (lambda: found.get_group("x"), GroupNotFoundError),
        (lambda: found.delete_group("x"), GroupNotFoundError),
        (lambda: found.get_policy("x"), PolicyNotFoundError),
        (lambda: found.delete_policy("x"), PolicyNotFoundError),
        (lambda: found.update_policy("x", READ), PolicyNotFoundError),
        (lambda: found.add_member("x", "user-a"), GroupNotFoundError),
        (lambda: found.add_member("group-a", "x"), UserNotFoundError),
        (lambda: found.remove_member("group-a", "x"), UserNotFoundError),
        (lambda: found.attach_to_user("x", "user-a"), PolicyNotFoundError),
        (lambda: found.detach_from_group("policy-a", "x"), GroupNotFoundError),
        (lambda: found.list_members("x", amount=1), GroupNotFoundError),
        (lambda: found.list_groups_of("x", amount=1), UserNotFoundError),
        (lambda: found.list_effective_policies("x", amount=1), UserNotFoundError),
        (lambda: found.list_credentials("x", amount=1), UserNotFoundError),
        (lambda: found.add_credential("x", "KEY-x", "s"), UserNotFoundError),
        (lambda: found.get_credential("user-a", "KEY-b"), CredentialsNotFoundError),
        (lambda: found.delete_credential("user-a", "KEY-b"), CredentialsNotFoundError),
        (lambda: found.find_credential("KEY-x"), CredentialsNotFoundError),
    ):
        with pytest.raises(error) as refused:
            call()
        assert refused.value.status == 404


def test_bonds_can_be_undone_and_undoing_twice_is_no_error() -> None:
    found = filled(open_store("memory://"))
    for _ in range(2):
        found.remove_member("group-a", "user-a")
        found.detach_from_user("policy-a", "user-a")
        found.detach_from_group("policy-a", "group-a")
    assert names(found.list_members("group-a", amount=9)) == ["user-b"]
    assert names(found.list_groups_of("user-a", amount=9)) == ["group-b"]
    assert names(found.list_user_policies("user-a", amount=9)) == ["policy-b"]
    assert names(found.list_group_policies("group-a", amount=9)) == ["policy-b"]


REMOVALS: list[tuple[str, Callable[[Directory], None], str]] = [
    ("user", lambda d: d.delete_user("user-a"), "users/user-a"),
    ("group", lambda d: d.delete_group("group-a"), "groups/group-a"),
    ("policy", lambda d: d.delete_policy("policy-a"), "policies/policy-a"),
]


def bonds_of(entity: str, found: set[str]) -> set[str]:
    """Keys that bind an entity to others."""
    return {key for key in found if entity.partition("/")[2] in key.split("/") and key != entity}


@pytest.mark.parametrize(("remove", "entity"), [r[1:] for r in REMOVALS], ids=[r[0] for r in REMOVALS])
def test_removal_takes_the_bonds_along_and_nothing_else(
    remove: Callable[[Directory], None], entity: str
) -> None:
    kv = open_store("memory://")
    made = filled(kv)
    before = keys(kv)
    remove(made)
    assert before - keys(kv) == {entity} | bonds_of(entity, before)


@pytest.mark.parametrize(("remove", "entity"), [r[1:] for r in REMOVALS], ids=[r[0] for r in REMOVALS])
def test_a_crash_in_a_removal_leaves_no_bond_without_its_entity(
    remove: Callable[[Directory], None], entity: str
) -> None:
    crashes = 0
    for count in range(100):
        kv = open_store("memory://")
        filled(kv)
        before = keys(kv)
        try:
            remove(directory(crash_after_writes(kv, count)))
        except CrashError:
            crashes += 1
        after = keys(kv)
        assert entity in after or not bonds_of(entity, after), f"after {count} writes"
        assert before - after <= {entity} | bonds_of(entity, before)
        if entity not in after and count > crashes:
            break
        if entity in after:  # whoever tries again completes it
            remove(directory(kv))
            assert entity not in keys(kv)
            assert not bonds_of(entity, keys(kv))
    assert crashes > 4


def test_credentials_end_first_when_a_user_is_removed() -> None:
    kv = open_store("memory://")
    filled(kv)
    with pytest.raises(CrashError):
        directory(crash_after_writes(kv, 1)).delete_user("user-a")
    assert "users/user-a" in keys(kv)
    with pytest.raises(CredentialsNotFoundError):
        directory(kv).find_credential("KEY-a")


BINDINGS: list[tuple[str, Callable[[Directory], object], Callable[[Directory], None], str]] = [
    ("member, user goes", lambda d: d.add_member("g", "user-a"), lambda d: d.delete_user("user-a"), "user-a"),
    ("member, group goes", lambda d: d.add_member("g", "user-a"), lambda d: d.delete_group("g"), "g"),
    ("policy of user", lambda d: d.attach_to_user("p", "user-a"), lambda d: d.delete_policy("p"), "p"),
    ("policy of group", lambda d: d.attach_to_group("p", "g"), lambda d: d.delete_policy("p"), "p"),
    ("policy, group goes", lambda d: d.attach_to_group("p", "g"), lambda d: d.delete_group("g"), "g"),
    ("key", lambda d: d.add_credential("user-a", "NEW", "s"), lambda d: d.delete_user("user-a"), "user-a"),
]  # fmt: skip


@pytest.mark.parametrize(("bind", "remove", "name"), [b[1:] for b in BINDINGS], ids=[b[0] for b in BINDINGS])
def test_binding_to_what_is_removed_meanwhile_leaves_no_bond(
    bind: Callable[[Directory], object], remove: Callable[[Directory], None], name: str
) -> None:
    """The removal happens whole, at each place between two operations of the binding."""
    places = 0
    for place in range(50):
        kv = open_store("memory://")
        made = filled(kv)
        made.create_group("g")
        made.create_policy("p", READ)
        seen = 0

        def at_its_place(_: Operation, kv: Store = kv, place: int = place) -> None:
            nonlocal seen
            seen += 1
            if seen == place + 1:
                remove(directory(kv))

        with contextlib.suppress(UserNotFoundError, GroupNotFoundError, PolicyNotFoundError):
            bind(directory(WatchedStore(kv, before=at_its_place)))
        if seen <= place:
            break
        places += 1
        assert not {key for key in keys(kv) if name in key.split("/")}, f"removed before operation {place}"
    assert places >= 4


@pytest.mark.parametrize(("bind", "remove", "name"), [b[1:] for b in BINDINGS], ids=[b[0] for b in BINDINGS])
def test_removing_what_is_bound_meanwhile_leaves_no_bond(
    bind: Callable[[Directory], object], remove: Callable[[Directory], None], name: str
) -> None:
    for place in range(60):
        kv = open_store("memory://")
        made = filled(kv)
        made.create_group("g")
        made.create_policy("p", READ)
        seen = 0

        def at_its_place(_: Operation, kv: Store = kv, place: int = place) -> None:
            nonlocal seen
            seen += 1
            if seen == place + 1:
                with contextlib.suppress(UserNotFoundError, GroupNotFoundError, PolicyNotFoundError):
                    bind(directory(kv))

        remove(directory(WatchedStore(kv, before=at_its_place)))
        if seen <= place:
            return
        assert not {key for key in keys(kv) if name in key.split("/")}, f"bound before operation {place}"
    raise AssertionError("the removal never ended")


def test_a_bond_that_leads_to_nothing_counts_as_none() -> None:
    kv = open_store("memory://")
    made = filled(kv)
    kv.delete(b"auth", b"policies/policy-a")
    kv.delete(b"auth", b"users/user-b")
    assert names(made.list_user_policies("user-a", amount=9)) == ["policy-b"]
    assert names(made.list_effective_policies("user-a", amount=9)) == ["policy-b"]
    assert names(made.list_members("group-a", amount=9)) == ["user-a"]
    with pytest.raises(CredentialsNotFoundError):
        made.find_credential("KEY-b")


def test_an_update_of_a_policy_never_brings_a_removed_one_back() -> None:
    kv = open_store("memory://")
    made = filled(kv)
    done = []

    def remove_first(operation: Operation) -> None:
        if operation.name == "set_if" and not done:
            done.append(True)
            made.delete_policy("policy-a")

    with pytest.raises(PolicyNotFoundError):
        directory(WatchedStore(kv, before=remove_first)).update_policy("policy-a", READ)
    assert "policies/policy-a" not in keys(kv)


def test_every_change_is_told() -> None:
    told = []
    kv = open_store("memory://")
    filled(kv)
    made = directory(kv, lambda: told.append(1))
    for count, change in enumerate(
        (
            lambda: made.create_user("u"),
            lambda: made.add_credential("u", "KEY", "s"),
            lambda: made.delete_credential("u", "KEY"),
            lambda: made.add_member("group-a", "u"),
            lambda: made.remove_member("group-a", "u"),
            lambda: made.attach_to_user("policy-a", "u"),
            lambda: made.detach_from_user("policy-a", "u"),
            lambda: made.update_policy("policy-a", READ),
            lambda: made.delete_policy("policy-a"),
            lambda: made.delete_user("u"),
            lambda: made.delete_group("group-a"),
        ),
        1,
    ):
        change()
        assert len(told) == count
