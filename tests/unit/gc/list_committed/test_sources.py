"""Refs, history and active commits from the key-value store: the server's answer, and what its walk loses."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dredge.errors import RefusedError
from dredge.gc.list_committed import ListCommittedOutput, find_active
from dredge.gc.list_committed import active as finding
from dredge.gc.list_committed.active import RECORDS, SERVER, Found, find_history
from dredge.gc.run import Run
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing
from dredge.lakefs import PreparedCommits, Ref
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Repository, repository_key
from dredge.runs.run import release_lease
from dredge.runs.tries import StepTry
from lakefs_embedded.catalog.garbage import Rules, active_commits
from tests.support.few_commits import EXTRA, GRAPH, MAIN, TAG, TOPIC, Server, csv, run_of
from tests.support.gc import CatalogClient, World, make_world, summary_of
from tests.support.histories import History, operation
from tests.support.kv_views import HEAVY, Snapshots, WithoutSnapshots, never_asked, open_as, store_of
from tests.support.lakes import with_settings


def recorded(**more: object) -> World:
    return make_world(read_kv=True, **more)


def partition_of(world: World) -> bytes:
    key = repository_key(world.lake.repository)
    return Repository.decode(world.lake.kv.get(REPOSITORIES_PARTITION, key)).partition


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    history=st.lists(operation, min_size=10, max_size=40),
    days=st.sampled_from([1, 5, 30]),
    loses_commits=st.booleans(),
    keep_tags=st.booleans(),
)
def test_the_records_give_what_the_server_answers_and_what_its_walk_loses(
    history: list[tuple[object, ...]], days: int, loses_commits: bool, keep_tags: bool
) -> None:
    world = make_world(read_kv=True, keep_tags=keep_tags)
    defects = frozenset({"active_walk_early_stop"} if loses_commits else set())
    world.lake = with_settings(world.lake, defects=defects)
    world.client = CatalogClient(world.lake.catalog)
    world.rules(days, two=2 * days)
    made = History(world)
    for name, *arguments in history:
        made.do(str(name), *arguments)
    refs = world.lake.catalog.refs
    found = refs.repositories.get(world.lake.repository)
    every = list(refs.commits.all(found))
    # In doubt a commit is young: clocks differ by minutes.
    now = world.lake.clock() - timedelta(minutes=5)
    whole = active_commits(every, refs.branches.scan(found), Rules(days, {"two": 2 * days}), now)
    with pytest.MonkeyPatch.context() as patch:
        open_as(Snapshots(world), patch)
        run = world.plan()
        with never_asked(world, *HEAVY):
            records, active = find_history(run), find_active(run)
        release_lease(run)
        server = find_active(world.plan(read_kv=False))
    listed = records.listed[RECORDS].keys()
    # What is beyond the server's own rules are ends of lines, which only a dangling commit with an old date continues.
    assert whole.keys() <= listed
    assert listed <= whole.keys() | records.graph.keys()
    assert server.metaranges.items() <= active.metaranges.items()
    assert active.metaranges.keys() == server.metaranges.keys() | whole.keys()
    assert (active.branches, active.tags) == (server.branches, server.tags)
    assert active.graph.keys() == server.graph.keys()
    for commit in every:
        if commit.id in active.metaranges:
            assert active.metaranges[commit.id] == commit.metarange_id


def expired_but_for(world: World, keep: str) -> str:
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("start", b"s")
    start = world.lake.commit("start").id
    address = world.upload("a", keep.encode())
    commit = world.lake.commit("kept", date=world.lake.clock() - timedelta(days=90))
    if keep == "hidden branch":
        catalog.branches.create_branch(name, "unseen", "main", hidden=True)
    if keep == "tag":
        catalog.tags.create_tag(name, "v1", commit.id)
    if keep == "dangling":
        catalog.branches.create_branch(name, "gone", "main")
        world.lake.commit("young", "gone", allow_empty=True, date=world.lake.clock() + timedelta(days=4))
        catalog.branches.delete_branch(name, "gone")
    catalog.branches.hard_reset(name, "main", start)
    if keep == "sealed token":
        address = world.upload("b", b"sealed")
        History(world).seal("main")
    world.age(days=3)
    return address


@pytest.mark.usefixtures("without_canaries")
@pytest.mark.parametrize("keep", ["hidden branch", "tag", "sealed token", "dangling"])
@pytest.mark.parametrize("kind", [Snapshots, WithoutSnapshots], ids=["one moment", "read by read"])
def test_what_only_this_keeps_is_kept_by_the_records_alone(
    keep: str, kind: type[Snapshots | WithoutSnapshots], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = recorded()
    address, orphan = expired_but_for(world, keep), world.orphan("data/orphan")
    world.age(days=2)
    open_as(kind(world), monkeypatch)
    with never_asked(world, *HEAVY):
        world.collect()
    assert address in world.data()
    assert orphan not in world.data()


@pytest.mark.usefixtures("without_canaries")
def test_a_commit_made_between_the_reads_of_branches_and_commits_stops_nothing_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = recorded()
    world.rules(1)
    staged, orphan = world.upload("a", b"1"), world.orphan("data/orphan")
    world.age(days=2)
    store_of(world, monkeypatch)
    kv, partition = world.lake.kv, partition_of(world)
    scan, read, made = kv.scan, set[bytes](), list[str]()

    def scanning(name: bytes, start: bytes = b"") -> object:
        if name == b"usage":
            read.clear()  # the store is opened
        if name == partition and start in (b"commits/", b"branches/"):
            read.add(start)
            if len(read) == 2:  # right before the second of the two
                read.clear()
                made.append(world.lake.commit(f"meanwhile {len(made)}", allow_empty=True).id)
        return scan(name, start)

    kv.scan = scanning  # type: ignore[method-assign]
    world.collect()
    assert made
    assert staged in world.data()
    assert orphan not in world.data()


@pytest.mark.usefixtures("without_canaries")
def test_without_rules_everything_stays_whatever_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    world = recorded()
    addresses = set()
    for number in range(3):
        addresses.add(world.upload("a", b"%d" % number))
        world.lake.commit()
    orphan = world.orphan("data/orphan")
    world.age(days=400)
    open_as(Snapshots(world), monkeypatch)
    context = world.plan()
    with never_asked(world, *HEAVY):
        world.run(context)
    assert world.data() == addresses
    assert orphan not in world.data()
    details = summary_of(context, "list_committed").details
    assert (details["all_commits"], SERVER in details["sources"]) == (True, False)


def from_records(
    monkeypatch: pytest.MonkeyPatch, server: Server, doubt: str = "", tag: Ref = TAG, **config: Any
) -> Found:
    records = SimpleNamespace(branches=[TOPIC, MAIN], tags=[tag], commits=GRAPH | EXTRA)
    check = SimpleNamespace(doubt=doubt, location="postgres://x")
    monkeypatch.setattr(finding, "read_checked", lambda *_: (records, check))
    return find_history(run_of(server, read_kv=True, **config))


@pytest.mark.parametrize("keep_tags", [True, False])
def test_of_records_a_tag_without_its_commit_stops_the_run_where_tags_keep(
    keep_tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Ref("v2", "lost")
    if keep_tags:
        with pytest.raises(RefusedError, match=r"v2.*\blost\b"):
            from_records(monkeypatch, Server(), tag=lost)
    else:
        assert from_records(monkeypatch, Server(), tag=lost, keep_tags=False).graph == GRAPH


def test_rules_that_are_deleted_while_the_server_computes_count_no_more() -> None:
    class WithoutRules(Server):
        def prepare_commits(self, *_: object) -> PreparedCommits | None:
            self.listed_rules = None
            return super().prepare_commits()

    found = find_history(run_of(WithoutRules(listed=csv("d"))))
    assert (found.all_commits, found.rules) == (True, None)
    assert found.warnings


@pytest.mark.parametrize("is_repeated", [False, True], ids=["same try", "another process repeated the mark"])
def test_commits_that_the_mark_read_count_only_for_its_own_try(
    is_repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits are read after staging: what another try of the mark did not see staged may be in a commit since."""
    world = recorded()
    store_of(world, monkeypatch)
    world.rules(30)
    world.upload("a")
    run = world.plan()
    with run.going_on():
        slice_listing(run, world.runner)
        mark_uncommitted(run, world.runner)
        world.lake.commit()
        if is_repeated:
            other = Run.open(run.plan.run_uri, None, world.client, world.lake.clock)
            StepTry.claim(other.folder.writer, "mark_uncommitted")
            mark_uncommitted(other, world.runner)
        list_committed(run, world.runner)
    (head,) = world.lake.catalog.refs.branches.scan(
        world.lake.catalog.refs.repositories.get(world.lake.repository)
    )
    commits = ListCommittedOutput.of(summary_of(run, "list_committed")).commits
    known = run.folder.read_part(commits)["commit_id"].to_pylist()
    assert (head.commit_id in known) is is_repeated
