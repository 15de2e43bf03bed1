"""Staging records: what is read while others write."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import FormatError, RefusedError
from dredge.gc.mark_uncommitted.staging import Records, _read
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from lakefs_embedded.kv import Entry, MemoryKV
from lakefs_embedded.refs.records import branch_key, branch_record
from tests.support.gc import World, candidates, make_world, seen_with, summary_of
from tests.support.kv_views import WithoutSnapshots, open_as, store_of


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(read_kv=True, safety={"identical_suspects_max": 0})


def branch_of(world: World, change: Callable[[Branch], Branch] = lambda branch: branch) -> Branch:
    kv, name = world.lake.kv, world.lake.repository
    partition = Repository.decode(kv.get(REPOSITORIES_PARTITION, repository_key(name))).partition
    branch = change(Branch.decode(kv.get(partition, branch_key("main"))))
    kv.set(partition, branch_key("main"), branch_record(branch))
    return branch


def test_an_entry_that_moves_to_a_new_token_while_tokens_are_read_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit drops the token, and an update of metadata has put the old address into the next one."""
    world.commit("a", b"same")
    second = world.upload("a", b"same")
    world.age(days=2)
    store, kv = store_of(world, monkeypatch), world.lake.kv
    (token,) = world.lake.tokens()

    def move(partition: bytes) -> None:
        rows = list(kv.scan(token.encode())) if partition == token.encode() else []
        for row in rows:
            kv.set(b"lake-main:next", row.key, row.value)
            kv.delete(token.encode(), row.key)
        if rows:
            branch_of(world, lambda branch: replace(branch, staging_token="lake-main:next"))

    context = world.plan()
    store.before = move
    world.run(context)
    assert second in world.data()
    assert world.served()["a"] == second
    assert summary_of(context, "mark_uncommitted").counts["kv_tokens"] == 2


@pytest.mark.parametrize("record", [b"\xff\xff", bytes.fromhex("0a0162120169") + b"\x1a\x02\xff\xff"])
def test_what_cannot_be_read_stops_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch, record: bytes
) -> None:
    orphan = world.orphan("data/orphan")
    world.upload("a", b"1")
    world.age(days=2)
    store, kv = store_of(world, monkeypatch), world.lake.kv
    context = world.plan()
    (token,) = world.lake.tokens()

    def damage(_partition: bytes) -> None:
        if len(store.scanned) == 1:
            kv.set(token.encode(), b"b", record)

    store.before = damage
    with pytest.raises(FormatError, match="b"):
        world.run(context)
    assert orphan in world.data()
    assert context.folder.read_failure("mark_uncommitted") is not None


@dataclass
class OldCopy(WithoutSnapshots):
    kv: MemoryKV = field(default_factory=MemoryKV)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        is_old = b":" in partition or partition == b"usage"
        return (self.kv if is_old else self.world.lake.kv).scan(partition, start)


def name_old_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store = OldCopy(world)
    store.kv._partitions = copy.deepcopy(world.lake.kv._partitions)  # type: ignore[attr-defined]
    open_as(store, monkeypatch)


@pytest.mark.usefixtures("without_canaries")
def test_with_an_old_copy_of_the_store_a_copy_hidden_by_a_head_of_the_time_of_the_scan_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world(read_kv=True, rules=1)
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("a", b"other!")
    other = world.lake.commit("other")
    world.age(days=3)
    world.upload("a", b"same")
    same = world.lake.commit("same")
    name_old_copy(world, monkeypatch)
    again = world.upload("a", b"same")
    world.upload("b", b"what the server shows")
    world.age(days=3)
    context = world.plan()
    for step in (slice_listing, mark_uncommitted):
        step(context, world.runner)
    assert not summary_of(context, "mark_uncommitted").details["kv"]["exact"]
    catalog.branches.hard_reset(name, "main", other.id)
    for step in (list_committed, subtract, check_limits):
        step(context, world.runner)
    assert summary_of(context, "check_limits").counts["identical_served_objects"] == 1
    catalog.branches.hard_reset(name, "main", same.id)
    assert world.served()["a"] == again
    bulk_delete(context, world.runner)
    assert again in world.data()


@dataclass
class RowByRow(WithoutSnapshots):
    before_row: Callable[[bytes], None] = lambda _: None

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        kv = self.world.lake.kv
        for key in [row.key for row in kv.scan(partition, start)]:
            self.before_row(key)
            yield from (row for row in kv.scan(partition, key) if row.key == key)


def test_a_copy_that_is_renamed_while_the_records_are_read_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a copy may share its bytes, the new path lies before the reader by then, and the old one is gone."""
    world = seen_with(world, profile="design")
    objects, name = world.lake.catalog.objects, world.lake.repository
    address = world.upload("z", b"bytes")
    world.upload("b", b"other")
    world.age(days=2)
    renamed: list[bytes] = []

    def rename(key: bytes) -> None:
        if key == b"z" and not renamed:
            renamed.append(key)
            objects.copy_object(name, "main", "a", "z")
            objects.delete_object(name, "main", "z")

    store = RowByRow(world, before_row=rename)
    open_as(store, monkeypatch)
    context = world.marked()
    assert renamed
    assert world.served()["a"] == address
    assert address not in candidates(context)


class Store:
    location = "the store"

    def __init__(self, *looks: dict[str, str], consistent: bool = False) -> None:
        self.looks = [*looks]
        self.consistent = consistent
        self.heads: dict[str, str] = {}
        self.read: list[str] = []

    def branches(self) -> list[Any]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        self.read.append("branches")
        self.heads |= {name: f"head of {token}" for name, token in look.items()}
        return [
            SimpleNamespace(name=name, commit_id=f"head of {token}", tokens=(token,) if token else ())
            for name, token in look.items()
        ]

    def staged(self, token: str) -> Iterator[tuple[str, ...]]:
        self.read.append(token)
        yield (f"data/{token}",)

    def copies(self) -> Iterator[tuple[str, ...]]:
        self.read.append("copies")
        yield ("data/copy",)

    def records(self, rounds_max: int = 3) -> tuple[Records, list[str]]:
        found: list[str] = []

        def take(entries: Iterator[tuple[str, ...]]) -> int:
            before = len(found)
            found.extend(key for keys in entries for key in keys)
            return len(found) - before

        plan = SimpleNamespace(
            repository="lake", config=SimpleNamespace(safety=SimpleNamespace(scan_rounds_max=rounds_max))
        )
        arguments: Sequence[Any] = (SimpleNamespace(plan=plan, keys=None), self, SimpleNamespace(take=take))
        return _read(*arguments), found


def test_elsewhere_branches_are_looked_at_until_nothing_is_new_and_each_token_is_read_once() -> None:
    store = Store({"a": "t1"}, {"a": "t2", "b": "t1"}, {"a": "t2"})
    records, found = store.records()
    assert store.read == ["branches", "t1", "branches", "t2", "branches", "copies"]
    assert found == ["data/t1", "data/t2", "data/copy"]
    assert (records.tokens, records.rows) == (2, 3)
    assert records.heads == {("a", "head of t1"), ("a", "head of t2"), ("b", "head of t1")}


def test_branches_that_name_no_token_at_all_are_not_believed() -> None:
    with pytest.raises(RefusedError):
        Store({"a": ""}).records()


def test_tokens_that_change_in_every_round_stop_the_run() -> None:
    with pytest.raises(RefusedError):
        Store({"a": "t1"}, {"a": "t2"}, {"a": "t3"}, {"a": "t4"}).records()
