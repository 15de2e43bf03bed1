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
        made.users.create(f"user-{letter}")
        made.groups.create(f"group-{letter}")
        made.policies.create(f"policy-{letter}", READ)
    for left in "ab":
        made.credentials.add(f"user-{left}", f"KEY-{left}", "secret")
        for right in "ab":
            made.groups.add_member(f"group-{left}", f"user-{right}")
            made.policies.attach_to_group(f"policy-{left}", f"group-{right}")
            made.policies.attach_to_user(f"policy-{left}", f"user-{right}")
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
    assert found.users.get("user-a") == model.User("user-a", NOW)
    assert (
        found.groups.create("g", "all of us") == found.groups.get("g") == model.Group("g", NOW, "all of us")
    )
    assert found.policies.get("policy-a") == model.Policy("policy-a", NOW, READ)
    assert found.credentials.get("user-a", "KEY-a") == Credential("user-a", "KEY-a", "", NOW)
    assert found.credentials.find("KEY-a").secret == "secret"


def test_no_secret_is_stored_in_clear_and_none_opens_elsewhere() -> None:
    kv = open_store("memory://")
    found = filled(kv)
    found.credentials.add("user-a", "KEY-2", "hunter2-hunter2")
    assert all(b"hunter2" not in entry.value for entry in kv.scan(b"auth"))
    with pytest.raises(FormatError):
        Directory(kv, SecretBox("another key"), lambda: NOW).credentials.find("KEY-2")
    # a sealed secret put into another's record does not open there
    stolen = kv.get(b"auth", b"uCredentials/user-a/credentials/KEY-2")
    kv.set(b"auth", b"uCredentials/user-b/credentials/KEY-b", stolen)
    with pytest.raises(FormatError):
        found.credentials.find("KEY-b")


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    box = SecretBox("k")
    assert box.seal("s", b"x") != box.seal("s", b"x")
    assert box.open(box.seal("sécret", b"x"), b"x") == "sécret"
    for damaged in (b"", b"\x01", b"\x02" + box.seal("s", b"x")[1:], box.seal("s", b"x")[:-1]):
        with pytest.raises(FormatError):
            box.open(damaged, b"x")


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


def test_bonds_can_be_undone_and_undoing_twice_is_no_error() -> None:
    found = filled(open_store("memory://"))
    for _ in range(2):
        found.groups.remove_member("group-a", "user-a")
        found.policies.detach_from_user("policy-a", "user-a")
        found.policies.detach_from_group("policy-a", "group-a")
    assert names(found.groups.list_members("group-a", amount=9)) == ["user-b"]
    assert names(found.groups.list_of_user("user-a", amount=9)) == ["group-b"]
    assert names(found.policies.list_of_user("user-a", amount=9)) == ["policy-b"]
    assert names(found.policies.list_of_group("group-a", amount=9)) == ["policy-b"]


REMOVALS: list[tuple[str, Callable[[Directory], None], str]] = [
    ("user", lambda d: d.users.delete("user-a"), "users/user-a"),
    ("group", lambda d: d.groups.delete("group-a"), "groups/group-a"),
    ("policy", lambda d: d.policies.delete("policy-a"), "policies/policy-a"),
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
        directory(crash_after_writes(kv, 1)).users.delete("user-a")
    assert "users/user-a" in keys(kv)
    with pytest.raises(CredentialsNotFoundError):
        directory(kv).credentials.find("KEY-a")


BINDINGS: list[tuple[str, Callable[[Directory], object], Callable[[Directory], None], str]] = [
    ("member, user goes", lambda d: d.groups.add_member("g", "user-a"), lambda d: d.users.delete("user-a"), "user-a"),
    ("member, group goes", lambda d: d.groups.add_member("g", "user-a"), lambda d: d.groups.delete("g"), "g"),
    ("policy of user", lambda d: d.policies.attach_to_user("p", "user-a"), lambda d: d.policies.delete("p"), "p"),
    ("policy of group", lambda d: d.policies.attach_to_group("p", "g"), lambda d: d.policies.delete("p"), "p"),
    ("policy, group goes", lambda d: d.policies.attach_to_group("p", "g"), lambda d: d.groups.delete("g"), "g"),
    ("key", lambda d: d.credentials.add("user-a", "NEW", "s"), lambda d: d.users.delete("user-a"), "user-a"),
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
        made.groups.create("g")
        made.policies.create("p", READ)
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
        made.groups.create("g")
        made.policies.create("p", READ)
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
    assert names(made.policies.list_of_user("user-a", amount=9)) == ["policy-b"]
    assert names(made.policies.list_effective("user-a", amount=9)) == ["policy-b"]
    assert names(made.groups.list_members("group-a", amount=9)) == ["user-a"]
    with pytest.raises(CredentialsNotFoundError):
        made.credentials.find("KEY-b")


def test_an_update_of_a_policy_never_brings_a_removed_one_back() -> None:
    kv = open_store("memory://")
    made = filled(kv)
    done = []

    def remove_first(operation: Operation) -> None:
        if operation.name == "set_if" and not done:
            done.append(True)
            made.policies.delete("policy-a")

    with pytest.raises(PolicyNotFoundError):
        directory(WatchedStore(kv, before=remove_first)).policies.update("policy-a", READ)
    assert "policies/policy-a" not in keys(kv)


def test_every_change_is_told() -> None:
    told = []
    kv = open_store("memory://")
    filled(kv)
    made = directory(kv, lambda: told.append(1))
    for count, change in enumerate(
        (
            lambda: made.users.create("u"),
            lambda: made.credentials.add("u", "KEY", "s"),
            lambda: made.credentials.delete("u", "KEY"),
            lambda: made.groups.add_member("group-a", "u"),
            lambda: made.groups.remove_member("group-a", "u"),
            lambda: made.policies.attach_to_user("policy-a", "u"),
            lambda: made.policies.detach_from_user("policy-a", "u"),
            lambda: made.policies.update("policy-a", READ),
            lambda: made.policies.delete("policy-a"),
            lambda: made.users.delete("u"),
            lambda: made.groups.delete("group-a"),
        ),
        1,
    ):
        change()
        assert len(told) == count
