"""Staging records: what is read while others write."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.mark_uncommitted import staged
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.kv.memory import MemoryKV
from dredge.kv.model import Entry
from dredge.lakefs import Ref
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.entries import Entry as EntryOf
from dredge.lakefs.files.entries import Value
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, branch_key, repository_key
from lakefs_embedded.staging.area import Staged
from tests.support.gc import World, candidates, make_world, seen_with, summary_of
from tests.support.kv_views import WithoutSnapshots, open_as, store_of
from tests.support.storms import Storm, old_version, recovery


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(read_kv=True, safety={"identical_suspects_max": 0})


def branch_of(world: World, change: Callable[[Branch], Branch] = lambda branch: branch) -> Branch:
    kv, name = world.lake.kv, world.lake.repository
    partition = Repository.decode(kv.get(REPOSITORIES_PARTITION, repository_key(name))).partition
    branch = change(Branch.decode(kv.get(partition, branch_key("main"))))
    kv.set(partition, branch_key("main"), branch.encode())
    return branch


def test_an_entry_that_moves_to_a_new_token_while_tokens_are_read_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit drops the token, and an update of metadata has put the old address into the next one."""
    world.upload("a", b"same")
    world.lake.commit()
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


def test_what_moves_from_a_head_into_a_token_that_was_read_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = old_version(world, "a")
    store_of(world, monkeypatch)
    context = world.plan()
    world.mark(context)
    with recovery(world, "a"):
        world.run(context)
    assert world.served()["a"] == old
    assert old in world.data()


def test_a_branch_whose_tokens_change_all_the_time_stops_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    store, numbers = store_of(world, monkeypatch), iter(range(1000))

    def change(partition: bytes) -> None:
        if b":" in partition:
            branch_of(world, lambda branch: replace(branch, staging_token=f"lake-main:{next(numbers)}"))

    store.before = change
    with pytest.raises(RefusedError, match="5 looks"):
        world.collect()
    assert orphan in world.data()


def test_a_branch_that_moves_on_the_server_while_records_are_read_is_no_mistake(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.upload("a", b"1")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    store, done = store_of(world, monkeypatch), []

    def commit(partition: bytes) -> None:
        if b":" in partition and not done:
            done.append(partition)
            world.lake.commit()

    store.before = commit
    world.collect()
    assert orphan not in world.data()
    world.assert_readable()


def test_a_branch_that_the_store_does_not_have_stops_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    store_of(world, monkeypatch)
    honest = world.client.branches
    head = honest("lake")[0].commit_id
    monkeypatch.setattr(world.client, "branches", lambda name: [*honest(name), Ref("more", head)])
    with pytest.raises(RefusedError, match="not there"):
        world.collect()
    assert orphan in world.data()


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


def test_full_addresses_inside_the_namespace_are_read_as_the_keys_they_mean(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_of(world, monkeypatch)
    old = world.orphan("data/slice/old", b"same")
    (token,) = world.lake.tokens()
    entry = Staged(
        b"a", Value(b"i" * 32, EntryOf(f"{world.lake.namespace}/{old}", AddressType.FULL).encode())
    )
    world.age(days=2)
    context = world.plan()
    # Past the server, which would show it: only the records may keep it.
    monkeypatch.setattr(staged, "canonical_staged", lambda found, _: found.slice(0, 0))
    world.lake.kv.set(token.encode(), b"a", entry.encode())
    world.run(context)
    assert old in world.data()


def test_with_the_records_as_proof_no_branch_is_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the server loses rows, and branches come and go all the time."""
    world.settings["live_source"] = "both"
    world = seen_with(world, defects=frozenset({"rows_lost_on_branch_delete"}))
    store_of(world, monkeypatch)
    catalog, name = world.lake.catalog, world.lake.repository
    for branch in ("aa", "zz"):
        catalog.branches.create_branch(name, branch, "main")
    living = {world.upload(f"path/{number}", b"%d" % number, "aa") for number in range(5)}
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    asked: list[str] = []

    def count(called: str, _: object) -> None:
        asked.append(called)
        if called == "prepare_uncommitted":
            catalog.branches.create_branch(name, f"new{len(asked)}", "main")

    with Storm(world, ["mm"]):
        context = world.plan()
        slice_listing(context, world.runner)
        world.client.before = count
        mark_uncommitted(context, world.runner)
        assert not {"changes", "stat", "objects"} & set(asked)
        world.run(context)
    assert living <= world.data()
    assert orphan not in world.data()
    counts = summary_of(context, "mark_uncommitted").counts
    assert (counts["scans"], counts["rows"], counts["kv_rows"]) == (1, 0, 5)


@dataclass
class OldCopy(WithoutSnapshots):
    """A copy of the store that stopped a while ago, but for refs and commits; named by mistake."""

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
    """The copy lacks what the server shows, so branches are asked; they must be asked about the heads that they had
    when staging was read."""
    world = make_world(read_kv=True)
    world.rules(1)
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
    """A store that others write to between two rows of a scan."""

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
    context = world.plan()
    world.mark(context)
    assert renamed
    assert world.served()["a"] == address
    assert address not in candidates(context)
