"""Random histories of changes against a model of sets and dicts; some changes crash at a write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dredge.kv import Store, open_store
from lakefs_embedded.auth.directory import Directory
from lakefs_embedded.auth.model import PARTITION, Statement
from lakefs_embedded.auth.secrets import SecretBox
from lakefs_embedded.errors import GravelerError
from tests.support.faulty import CrashError, WatchedStore, crash_after_writes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READ = (Statement("allow", ("fs:Read*",), "*"),)
BOX = SecretBox("k")
NAMES = st.sampled_from(["a", "a+"])  # in key order the longer one comes between the shorter one's links
KINDS = st.sampled_from(["user", "group", "policy"])
LINKS = st.sampled_from(["member", "user-policy", "group-policy"])
ENDS = {"member": ("group", "user"), "user-policy": ("user", "policy"), "group-policy": ("group", "policy")}


def directory(kv: Store | WatchedStore) -> Directory:
    return Directory(kv, BOX, lambda: NOW)  # type: ignore[arg-type]


class DirectoryMachine(RuleBasedStateMachine):
    """Entities are (kind, name), links (kind, name of the first end, name of the second)."""

    def __init__(self) -> None:
        super().__init__()
        self.kv = open_store("memory://")
        self.there = directory(self.kv)
        self.entities: set[tuple[str, str]] = set()
        self.links: set[tuple[str, str, str]] = set()
        self.keys: dict[str, str] = {}

    @initialize()
    def begin_with_all_of_them(self) -> None:
        """Histories that begin with nothing seldom get as far as two things that are linked."""
        for kind in ("user", "group", "policy"):
            for name in ("a", "a+"):
                self.create(kind, name)

    def attempt(self, change: Callable[[], object]) -> bool:
        """Whether a change was made; a refusal changes nothing."""
        try:
            change()
        except GravelerError:
            return False
        return True

    @rule(kind=KINDS, name=NAMES)
    def create(self, kind: str, name: str) -> None:
        call = {
            "user": lambda: self.there.users.create(name),
            "group": lambda: self.there.groups.create(name),
            "policy": lambda: self.there.policies.create(name, READ),
        }[kind]
        assert self.attempt(call) == ((kind, name) not in self.entities)
        self.entities.add((kind, name))

    @rule(kind=KINDS, name=NAMES)
    def remove(self, kind: str, name: str) -> None:
        done = self.attempt(lambda: self.removal(self.there, kind, name))
        assert done == ((kind, name) in self.entities)
        self.forget(kind, name)

    @precondition(lambda self: self.entities)
    @rule(data=st.data(), writes=st.integers(0, 8))
    def crash_in_a_removal(self, data: st.DataObject, writes: int) -> None:
        """Bonds may be gone and the entity still there; never the other way round. Then it is done again."""
        kind, name = data.draw(st.sampled_from(sorted(self.entities)))
        try:
            self.removal(directory(crash_after_writes(self.kv, writes)), kind, name)
        except CrashError:
            self.no_link_without_its_ends()
            self.attempt(lambda: self.removal(self.there, kind, name))
        self.forget(kind, name)

    @rule(link=LINKS, first=NAMES, second=NAMES)
    def create_link(self, link: str, first: str, second: str) -> None:
        call = {
            "member": lambda: self.there.groups.add_member(first, second),
            "user-policy": lambda: self.there.policies.attach_to_user(second, first),
            "group-policy": lambda: self.there.policies.attach_to_group(second, first),
        }[link]
        ends = set(zip(ENDS[link], (first, second), strict=True))
        possible = ends <= self.entities and (link, first, second) not in self.links
        assert self.attempt(call) == possible
        if possible:
            self.links.add((link, first, second))

    @rule(link=LINKS, first=NAMES, second=NAMES)
    def remove_link(self, link: str, first: str, second: str) -> None:
        call = {
            "member": lambda: self.there.groups.remove_member(first, second),
            "user-policy": lambda: self.there.policies.detach_from_user(second, first),
            "group-policy": lambda: self.there.policies.detach_from_group(second, first),
        }[link]
        ends = set(zip(ENDS[link], (first, second), strict=True))
        assert self.attempt(call) == (ends <= self.entities)
        self.links.discard((link, first, second))

    @rule(user=NAMES, key=st.sampled_from(["KEY-1", "KEY-2"]))
    def give_a_key(self, user: str, key: str) -> None:
        possible = ("user", user) in self.entities and key not in self.keys
        assert self.attempt(lambda: self.there.credentials.add(user, key, f"secret of {user}")) == possible
        if possible:
            self.keys[key] = user

    @invariant()
    def listings_are_the_model(self) -> None:
        def named(kind: str) -> list[str]:
            return sorted(name for each, name in self.entities if each == kind)

        assert [each.name for each in self.there.users.list(amount=9).results] == named("user")
        assert [each.name for each in self.there.groups.list(amount=9).results] == named("group")
        assert [each.name for each in self.there.policies.list(amount=9).results] == named("policy")
        for user in named("user"):
            groups = sorted(g for link, g, member in self.links if link == "member" and member == user)
            assert [each.name for each in self.there.groups.list_of_user(user, amount=9).results] == groups
            own = {p for link, holder, p in self.links if link == "user-policy" and holder == user}
            shared = {p for link, g, p in self.links if link == "group-policy" and g in groups}
            assert [each.name for each in self.there.policies.effective(user)] == sorted(own | shared)
        for key in ("KEY-1", "KEY-2"):
            try:
                found = self.there.credentials.find(key)
            except GravelerError:
                assert key not in self.keys
            else:
                assert (found.user, found.secret) == (self.keys[key], f"secret of {self.keys[key]}")

    @invariant()
    def no_link_without_its_ends(self) -> None:
        kinds = {"gUsers": ("groups", "users"), "uPolicies": ("users", "policies"),
                 "gPolicies": ("groups", "policies"), "uCredentials": ("users", "")}  # fmt: skip
        keys = {entry.key.decode() for entry in self.kv.scan(PARTITION)}
        for key in keys:
            parts = key.split("/")
            if parts[0] in kinds:
                first, second = kinds[parts[0]]
                assert f"{first}/{parts[1]}" in keys
                assert not second or f"{second}/{parts[3]}" in keys

    @staticmethod
    def removal(there: Directory, kind: str, name: str) -> None:
        {"user": there.users.delete, "group": there.groups.delete, "policy": there.policies.delete}[kind](
            name
        )

    def forget(self, kind: str, name: str) -> None:
        self.entities.discard((kind, name))
        self.links = {
            each for each in self.links if (kind, name) not in set(zip(ENDS[each[0]], each[1:], strict=True))
        }
        if kind == "user":
            self.keys = {key: user for key, user in self.keys.items() if user != name}


TestDirectory = DirectoryMachine.TestCase
TestDirectory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
