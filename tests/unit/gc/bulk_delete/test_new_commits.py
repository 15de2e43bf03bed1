"""A sweep goes on while branches get commits, and loses nothing that a commit brings back."""

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import NotFoundError
from dredge.gc.bulk_delete import Subtracted, recheck, watch
from dredge.gc.bulk_delete.watch import NewCommits, Published
from dredge.gc.index.ranges import read_files
from dredge.gc.index.store import CommittedIndex
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.retention import PolicyRule, RetentionPolicy
from dredge.gc.run import Run
from dredge.gc.steps import bulk_delete
from dredge.hashing import hash64
from dredge.sets.hashes import read_hashes
from tests.support.gc import World, busy_world, candidates, deleting, make_world, summary_of
from tests.support.kept import built_once
from tests.support.looks import driver_looks
from tests.support.memory_store import memory_store

BUSY = {"heads_every_seconds": 0.005, "gate_every_seconds": 0}


@built_once
def expired_world(**settings: Any) -> tuple[World, str, str, str]:
    """An expired commit with a path that its child deleted: the world, the path's address, and both commits' ids."""
    world = make_world(tuning={"delete_keys": 1, "candidate_rows": 3}, **settings, rules=1)
    world.commit("base", b"base")
    address = world.upload("taken", b"taken out later")
    old = world.lake.commit("with it")
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "taken")
    without = world.lake.commit("without it")
    world.age(days=3)
    world.commit("later", b"goes on")
    for number in range(4):
        world.orphan(f"data/slice/orphan{number}", b"x" * (100 + number))
    world.age(days=2)
    return world, address, old.id, without.id


def revert(world: World, _old: str, without: str) -> None:
    world.lake.catalog.merges.revert(world.lake.repository, "main", without, committer="tester")


def cherry_pick(world: World, old: str, _without: str) -> None:
    world.lake.catalog.merges.cherry_pick(world.lake.repository, "main", old, committer="tester")


def commit_metarange(world: World, old: str, _without: str) -> None:
    metarange = world.lake.catalog.commits.get_commit(world.lake.repository, old).metarange_id
    world.lake.commit("from a metarange", source_metarange=metarange)


WAYS = [revert, cherry_pick, commit_metarange]
type Way = Callable[[World, str, str], None]


class Intruder:
    """Does something before one of the requests of a sweep, and keeps deletions waiting until the next look is over.

    Later looks have a thread of their own, and are no moments of this one.
    """

    def __init__(self, at: int, act: Callable[[], None], look: Callable[[], None]) -> None:
        self.requests = 0
        self.is_done = False
        self._at = at
        self._act = act
        self._look = look
        self._lock = threading.RLock()

    def asked(self, _name: str, _arguments: object = ()) -> None:
        """Comes before each call of the client."""
        self._next()

    def sent(self, _number: int, _keys: Sequence[str]) -> None:
        """Comes before each deletion, which has not passed the gate yet."""
        self._next()
        if self.is_done:
            self._look()

    def _next(self) -> None:
        if "watch" in threading.current_thread().name:
            return
        with self._lock:
            self.requests += 1
            if self.requests - 1 == self._at and not self.is_done:
                self.is_done = True
                self._act()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_an_expired_commit_named_stays_when_it_comes_back_before_any_request_of_the_sweep(
    way: Way,
) -> None:
    came_back = 0
    for at in itertools.count():
        is_done, was_there, is_there = sweep_with(way, at)
        assert is_there == was_there, f"before request {at}"
        came_back += is_there
        if not is_done:
            break
    assert came_back > 10


@built_once
def about_to_sweep() -> tuple[World, str, str, str, str]:
    world, address, old, without = expired_world(safety=BUSY)
    run = world.marked()
    assert address in candidates(run)
    return world, address, old, without, run.plan.run_uri


def sweep_with(way: Way, at: int) -> tuple[bool, bool, bool]:
    """Bring an expired commit back before a request of a sweep; whether that was done, and whether its object was in
    the store then, and is afterwards."""
    world, address, old, without, run_uri = about_to_sweep()
    run = Run.open(run_uri, None, world.client, world.lake.clock)
    was_there = []

    def come_back() -> None:
        was_there.append(address in world.data())
        way(world, old, without)

    with driver_looks() as look:
        intruder = Intruder(at, come_back, look)
        world.client.before = intruder.asked
        with deleting(before=intruder.sent):
            bulk_delete(run, world.runner)
    return intruder.is_done, any(was_there), address in world.data()


def marked(world: World) -> tuple[Run, Subtracted]:
    run = world.marked()
    subtracted = Subtracted.of_mark(run, ListCommittedOutput.of(summary_of(run, "list_committed")))
    recheck(run, world.runner, subtracted, "recheck/0")
    return run, subtracted


def follow(run: Run, new: NewCommits) -> str | None:
    return new.follow(run.client.branches(run.plan.repository), run.client.tags(run.plan.repository))


def published(run: Run, new: NewCommits) -> set[int]:
    """Every hash that workers read at the newest publication."""
    if not new.published.number:
        return set()
    parts = new.published.parts
    return {value for part in parts for value in read_hashes(run.folder, part).tolist()}


def hashed(address: str) -> int:
    (value,) = hash64(pa.array([address])).tolist()
    return int(value)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_range_that_only_an_expired_commit_had_is_read_although_the_index_has_it(way: Way) -> None:
    world, address, old, without = expired_world()
    run, subtracted = marked(world)
    ranges = set(CommittedIndex.load(run.state, run.plan.namespace).places)
    way(world, old, without)
    new = NewCommits(run, subtracted, Published(run.folder, "published"))
    assert follow(run, new) is None
    head = world.lake.catalog.commits.get_commit(world.lake.repository, "main")
    named = set(read_files(run.reader, [head.metarange_id]).ranges)
    assert named <= ranges, "the index knows the range that is back"
    assert hashed(address) in published(run, new)


def test_commits_between_two_looks_are_all_read() -> None:
    """A commit on the way may name what the head does not."""
    world, address, old, without = expired_world()
    run, subtracted = marked(world)
    revert(world, old, without)
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "taken")
    world.lake.commit("gone from the head")
    new = NewCommits(run, subtracted, Published(run.folder, "published"))
    assert follow(run, new) is None
    assert hashed(address) in published(run, new)


def test_both_parents_of_a_merge_are_followed() -> None:
    world, address, _, without = expired_world()
    catalog, repository = world.lake.catalog, world.lake.repository
    run, subtracted = marked(world)
    catalog.branches.create_branch(repository, "side", "main")
    catalog.merges.revert(repository, "side", without, committer="tester")
    catalog.merges.merge(repository, "side", "main", committer="tester")
    catalog.branches.delete_branch(repository, "side")
    new = NewCommits(run, subtracted, Published(run.folder, "published"))
    assert follow(run, new) is None
    assert len(new._commits) == 2
    assert hashed(address) in published(run, new)


def test_a_branch_or_tag_that_leads_to_an_expired_commit_ends_the_round() -> None:
    world, _, old, _ = expired_world()
    catalog, repository = world.lake.catalog, world.lake.repository
    run, subtracted = marked(world)
    new = NewCommits(run, subtracted, Published(run.folder, "published"))
    catalog.tags.create_tag(repository, "v1", old)
    assert "v1" in str(follow(run, new))
    catalog.tags.delete_tag(repository, "v1")
    catalog.branches.create_branch(repository, "old", old)
    assert "old" in str(follow(run, new))
    world.commit("more", b"on it", "old")
    assert old in str(follow(run, new))
    assert new.published.number == 0


@pytest.mark.parametrize("limit", ["_COMMITS_MAX", "_RECORDS_MAX"])
def test_more_than_one_look_can_read_ends_the_round(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, *_ = expired_world()
    run, subtracted = marked(world)
    new = NewCommits(run, subtracted, Published(run.folder, "published"))
    for number in range(3):
        world.commit(f"new/{number}", b"%d" % number)
    monkeypatch.setattr(watch, limit, 2)
    assert follow(run, new) is not None
    assert new.published.number == 0
    monkeypatch.undo()
    assert follow(run, new) is None


def test_commits_that_the_servers_cache_denies_are_found_by_their_ids() -> None:
    world, address, old, without = expired_world()
    run, subtracted = marked(world)
    revert(world, old, without)

    def deny(_repository: str, _ref: str) -> Any:
        raise NotFoundError("commit not found")

    world.client.log = deny  # type: ignore[method-assign]
    new = NewCommits(run, subtracted, Published(run.folder, "published"))
    assert follow(run, new) is None
    assert hashed(address) in published(run, new)
    world.client.commit = deny  # type: ignore[method-assign]
    world.commit("more", b"more")
    assert follow(run, new) is not None, "a commit that nobody knows"


def test_a_metarange_or_range_that_cannot_be_read_ends_the_round() -> None:
    world, *_ = expired_world()
    run, subtracted = marked(world)
    world.upload("more", b"more")
    head = world.lake.commit()
    range_id = set(read_files(run.reader, [head.metarange_id]).ranges) - subtracted.ranges
    bucket, _, prefix = world.lake.namespace.removeprefix("memory://").partition("/")
    for name in (*range_id, head.metarange_id):
        memory_store(bucket).remove(f"{prefix}/_lakefs/{name}")
        new = NewCommits(run, subtracted, Published(run.folder, "published"))
        assert follow(run, new) is not None
        assert new.published.number == 0


@pytest.mark.parametrize(
    ("days", "policy", "goes_on"),
    [
        ({}, None, True),
        ({"two": 300}, None, False),
        ({"other": 1}, None, True),
        ({"other": 1, "main": 1}, None, False),
        ({}, RetentionPolicy((PolicyRule("last", ("two",), 3),)), False),
        ({}, RetentionPolicy((PolicyRule("last", ("two", "main"), 3),)), True),
        ({}, RetentionPolicy((PolicyRule("last", ("other",), 3),)), True),
    ],
)
def test_a_new_branch_that_rules_keep_more_of_than_of_others_ends_the_round(
    days: dict[str, int], policy: RetentionPolicy | None, goes_on: bool
) -> None:
    """What is behind the commit that it began at was judged by the rule of another branch."""
    world, *_ = expired_world(policy=policy)
    world.rules(30, **days)
    run, subtracted = marked(world)
    world.lake.catalog.branches.create_branch(world.lake.repository, "two", "main")
    world.commit("more", b"more", "two")
    assert (follow(run, NewCommits(run, subtracted, Published(run.folder, "published"))) is None) is goes_on


def test_other_rules_end_the_round() -> None:
    world, kept, gone = busy_world(safety=BUSY)
    run = world.marked()

    def keep_longer(number: int, _keys: object) -> None:
        if number == 1:
            world.rules(300)
            look()

    with driver_looks() as look, deleting(before=keep_longer):
        summary = bulk_delete(run, world.runner)
    assert len(summary.details["rechecks"]) == 2
    assert world.data() == kept
    assert not gone & world.data()


def test_a_round_ends_after_its_time_and_the_next_one_goes_on_however_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Staging is read again at the beginning of each round."""
    world, kept, gone = busy_world(safety=BUSY)
    run = world.marked()
    now = [0.0]
    monkeypatch.setattr("dredge.gc.bulk_delete.watch.running_seconds", lambda: now[0])

    def let_time_pass(number: int, _keys: object) -> None:
        if number % 2 == 0:
            now[0] += 3600
            look()

    with driver_looks() as look, deleting(before=let_time_pass):
        summary = bulk_delete(run, world.runner)
    assert summary.status == "success"
    assert len(summary.details["rechecks"]) > 2
    assert world.data() == kept
    assert not gone & world.data()
