"""What the records of a key-value store are worth: only the server's own store, as of now, stands for the server."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted import RepositoryRecords, StoreCheck, read_checked
from dredge.gc.mark_uncommitted.kv_store import _check_heads, _Count, read_count
from dredge.lakefs import Usage
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Repository, repository_key
from lakefs_embedded.kv import MemoryKV
from lakefs_embedded.refs.records import branch_key
from lakefs_embedded.server.usage import PARTITION
from lakefs_embedded.server.usage import Usage as Counter
from tests.support.gc import World, make_world, summary_of
from tests.support.kv_views import Snapshots, WithoutSnapshots, copy_of, never_asked, open_as, store_of
from tests.support.lossy_scans import stormy_world
from tests.support.memory_rows import MemoryRows
from tests.support.storms import Storm, old_version, recovery

pytestmark = pytest.mark.usefixtures("without_canaries")


def recorded(**settings: object) -> World:
    return make_world(read_kv=True, safety={"identical_suspects_max": 0}, **settings)


def check_store(world: World) -> StoreCheck:
    plan = world.plan().plan
    return read_checked(world.client, plan.repository, plan.namespace, lambda records: records.branches())[1]


def staged_since_the_copy(world: World) -> tuple[MemoryKV, str, str]:
    """A copy of the store, what was staged since, and an orphan. No head has moved, so only the counter tells."""
    world.commit("a", b"1")
    world.client.usage()
    copied = copy_of(world)
    world.age(hours=1)
    staged = world.upload("b", b"2")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    return copied, staged, orphan


def test_what_was_staged_since_a_copy_of_the_store_was_made_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    world = recorded()
    copied, staged, orphan = staged_since_the_copy(world)
    open_as(Snapshots(world, copied), monkeypatch)
    context = world.collected()
    assert staged in world.data()
    assert orphan not in world.data()
    summary = summary_of(context, "mark_uncommitted")
    assert (summary.counts["scans"], summary.details["kv"]["exact"]) == (1, False)


def test_a_copy_on_which_another_server_works_does_not_stand_for_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = recorded()
    copied, staged, _ = staged_since_the_copy(world)
    other = Counter(copied, world.lake.clock)
    for _ in range(1000):
        other.count()
    other.months()
    open_as(Snapshots(world, copied), monkeypatch)
    world.collect()
    assert staged in world.data()


def test_a_copy_that_counts_along_with_a_busy_server_does_not_stand_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = recorded()
    copied, staged, orphan = staged_since_the_copy(world)
    key = next(iter(world.lake.kv.scan(PARTITION))).key
    store = WithoutSnapshots(world, kv=copied)

    def go_on(partition: bytes) -> None:
        served = int(world.lake.kv.get(PARTITION, key))
        if partition == PARTITION:
            copied.set(PARTITION, key, b"%d" % (served + 500))
        elif partition == REPOSITORIES_PARTITION:
            world.lake.kv.set(PARTITION, key, b"%d" % (served + 1000))

    store.before = go_on
    open_as(store, monkeypatch)
    context = world.collected()
    assert staged in world.data()
    assert orphan not in world.data()
    summary = summary_of(context, "mark_uncommitted")
    assert (summary.counts["scans"], summary.details["kv"]["exact"]) == (1, False)


def test_a_copy_that_stands_still_at_the_servers_count_is_found_out_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = recorded()
    copied, staged, _ = staged_since_the_copy(world)
    key = next(iter(world.lake.kv.scan(PARTITION))).key
    store, counted = WithoutSnapshots(world, kv=copied), []
    opened = store.open

    def open_again() -> contextlib.closing[WithoutSnapshots]:
        counted.clear()
        return opened()

    def hit(partition: bytes) -> None:
        if partition == PARTITION and not counted:
            copied.set(PARTITION, key, world.lake.kv.get(PARTITION, key))
        counted.extend([partition] if partition == PARTITION else [])

    store.open = open_again  # type: ignore[method-assign]
    store.before = hit
    open_as(store, monkeypatch)
    world.collect()
    assert staged in world.data()


@pytest.mark.parametrize("report", [True, False], ids=["refuted", "no usage report"])
def test_what_a_server_loses_from_its_scan_stays_though_a_copy_lacks_it_too(
    report: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, living, orphan = stormy_world(read_kv=True, safety={"identical_suspects_max": 0})
    copied = copy_of(world)
    for row in list(copied.scan(world.lake.tokens("aa")[0].encode())):
        copied.delete(world.lake.tokens("aa")[0].encode(), row.key)
    open_as(Snapshots(world, copied), monkeypatch)
    if not report:
        world.client.usage = lambda: None  # type: ignore[method-assign]
    with Storm(world, ["mm"]):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_the_same_bytes_uploaded_again_since_a_copy_was_made_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(read_kv=True)
    world.commit("a", b"same")
    world.client.usage()
    copied = copy_of(world)
    world.age(hours=1)
    again, orphan = world.upload("a", b"same"), world.orphan("data/orphan")
    world.age(days=2)
    open_as(Snapshots(world, copied), monkeypatch)
    context = world.collected()
    assert summary_of(context, "mark_uncommitted").counts["kv_missing_addresses"] == 0
    assert world.served()["a"] == again
    assert again in world.data()
    assert orphan not in world.data()


@pytest.mark.parametrize(
    "answer",
    [lambda: None, lambda: Usage("id", 7), lambda: Usage("", 7)],
    ids=["no report", "a counter that stands still", "no installation"],
)
def test_where_nothing_shows_that_the_server_writes_there_it_is_asked(
    answer: Callable[[], Usage | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = recorded()
    world.rules(1)
    staged, orphan = world.upload("b", b"2"), world.orphan("data/orphan")
    world.age(days=2)
    open_as(Snapshots(world), monkeypatch)
    world.client.usage = answer  # type: ignore[method-assign]
    context = world.collected()
    assert staged in world.data()
    assert orphan not in world.data()
    summary = summary_of(context, "mark_uncommitted")
    assert (summary.counts["scans"], summary.details["kv"]["exact"]) == (1, True)
    assert any(check_store(world).location in text for text in summary.warnings)
    assert summary_of(context, "list_committed").details["sources"]["server"] == 1


def test_a_record_that_a_newer_server_wrote_does_not_stand_for_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = recorded()
    world.upload("b", b"2")
    world.age(days=2)
    open_as(Snapshots(world), monkeypatch)
    kv = world.lake.kv
    partition = Repository.decode(kv.get(REPOSITORIES_PARTITION, repository_key("lake"))).partition
    # A metarange of what was compacted, say, in field 6.
    kv.set(partition, branch_key("main"), kv.get(partition, branch_key("main")) + b"\x32\x02id")
    context = world.collected()
    summary = summary_of(context, "mark_uncommitted")
    assert summary.counts["scans"] == 1
    assert any("branches/main" in text for text in summary.warnings)


def test_what_a_newer_server_keeps_elsewhere_than_in_known_records_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Staged entries that were compacted into a metarange, say. The server does not show the same bytes uploaded again,
    and the records have all that it shows."""
    world = make_world(read_kv=True)
    world.commit("a", b"same")
    again, orphan = world.upload("a", b"same"), world.orphan("data/orphan")
    world.age(days=2)
    kv = world.lake.kv
    partition = Repository.decode(kv.get(REPOSITORIES_PARTITION, repository_key("lake"))).partition
    kv.set(partition, branch_key("main"), kv.get(partition, branch_key("main")) + b"\x32\x02id")
    open_as(Snapshots(world), monkeypatch)
    monkeypatch.setattr(RepositoryRecords, "staged", lambda *_: iter(()))
    context = world.collected()
    assert summary_of(context, "mark_uncommitted").counts["kv_missing_addresses"] == 0
    assert world.served()["a"] == again
    assert again in world.data()
    assert orphan not in world.data()


@pytest.mark.parametrize("inner", [True, False], ids=["entry", "staged entry"])
def test_an_entry_that_a_newer_server_staged_does_not_stand_for_the_server(
    inner: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = recorded()
    world.upload("b", b"2")
    world.age(days=2)
    open_as(Snapshots(world), monkeypatch)
    (token,) = world.lake.tokens()
    (row,) = list(world.lake.kv.scan(token.encode()))
    record = messages.decode(messages.StagedEntryData, row.value, "b")
    more = b"\xfa\x3f\x02id"  # field 1023
    record.data += more if inner else b""
    world.lake.kv.set(token.encode(), row.key, messages.encode(record) + (b"" if inner else more))
    context = world.collected()
    summary = summary_of(context, "mark_uncommitted")
    assert (summary.counts["scans"], summary.details["kv"]["exact"]) == (1, False)


def test_the_counter_is_read_before_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment of a view is that of its first read: read later, the counter would prove another moment."""
    world = recorded()
    store = store_of(world, monkeypatch)
    check_store(world)
    assert store.scanned[:2] == [PARTITION, PARTITION]


def test_records_of_a_store_that_has_counted_less_do_not_stand_for_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name with two addresses, say: the counter comes from the server's database, the records from a copy."""
    world = recorded()
    copied, _, _ = staged_since_the_copy(world)
    store, views = WithoutSnapshots(world), []

    def take_turns(partition: bytes) -> None:
        views.extend([partition] if partition == PARTITION else [])
        store.kv = copied if len(views) % 3 == 2 else None

    store.before = take_turns
    open_as(store, monkeypatch)
    assert check_store(world).refuted


def test_the_server_is_never_asked_while_a_view_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a pooler with one session, which the view holds, the server could not answer."""
    world = recorded()
    store = store_of(world, monkeypatch)
    look_at = store.view

    @contextlib.contextmanager
    def view() -> Iterator[WithoutSnapshots]:
        with look_at() as opened, never_asked(world, *dir(world.client)):
            yield opened

    store.view = view  # type: ignore[method-assign]
    assert check_store(world).doubt == ""


def test_the_counters_of_all_months_count_and_those_of_others_do_not() -> None:
    kv = MemoryKV()
    for key, value in {
        b"usage/monthly/a/202512": b"5",
        b"usage/monthly/a/202601": b"7",
        b"usage/monthly/a/b/202601": b"x",
        b"usage/monthly/ab/202601": b"11",
        b"usage/monthly/b/202601": b"13",
    }.items():
        kv.set(PARTITION, key, value)
    with MemoryRows(kv).view() as view:
        assert read_count(view, "ab") == 11
        assert read_count(view, "none") == 0
        assert read_count(view, "a") is None, "what is no number is no counter"


FITS, COPY = _Count(5, 7, 9), _Count(5, 4, 9)


@pytest.mark.parametrize(
    ("before", "after", "there", "is_ours"),
    [
        ("c1", "c1", "c1", True),
        ("c1", "c2", "c2", True),
        ("c1", "c2", "c3", True),
        ("c1", None, None, True),
        ("c1", "c1", "c2", False),
        ("c1", "c1", None, False),
    ],
)
def test_a_branch_that_did_not_move_has_its_head_in_the_servers_own_store(
    before: str, after: str | None, there: str | None, is_ours: bool
) -> None:
    records: Any = SimpleNamespace(location="the store", heads={"b": there} if there else {})
    heads = {"b": after} if after else {}
    if is_ours:
        _check_heads(records, {"b": before}, heads)
    else:
        with pytest.raises(RefusedError, match=r"\bb\b.*c1"):
            _check_heads(records, {"b": before}, heads)


@pytest.mark.parametrize("kind", [Snapshots, WithoutSnapshots])
def test_what_moves_from_a_head_into_a_token_after_the_records_were_read_stays(
    kind: type[Snapshots | WithoutSnapshots], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = recorded()
    old = old_version(world, "a")
    open_as(kind(world), monkeypatch)
    context = world.marked()
    with recovery(world, "a"):
        world.run(context)
    assert world.served()["a"] == old
    assert old in world.data()
