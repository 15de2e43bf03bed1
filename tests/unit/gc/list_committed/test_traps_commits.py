"""Traps about what is committed: an answer that is short, late or damaged never makes the live set
smaller."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.gc.list_committed.active import OWN
from dredge.gc.list_committed.graph import load_graph, read_commits_csv
from dredge.gc.steps import bulk_delete
from dredge.graveler.catalog import Commit as CatalogCommit
from dredge.graveler.committed.commits import commit_id as compute_id
from dredge.graveler.sstable.envelope import read_envelope
from dredge.lakefs import Commit, PreparedCommits, Ref
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_deleter
from tests.support.captured import FOLDER
from tests.support.gc import World, deleting, make_world, seen_with, summary_of


def committed_world(**settings: object) -> tuple[World, str, str]:
    """A committed object, an orphan, two days later."""
    world = make_world(**settings)
    kept = world.upload("a", b"1")
    world.lake.commit()
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    return world, kept, orphan


def test_trap_02_no_rules_means_that_every_commit_is_active() -> None:
    """Vendor: its fallback for "no rules" finds no committed address at all and deletes every one."""
    world = make_world()
    first = world.upload("a", b"first")
    world.lake.commit("first")
    second = world.upload("a", b"second")
    world.lake.commit("second")
    orphan = world.orphan("data/orphan")
    world.age(days=400)
    context = world.plan()
    world.run(context)
    assert world.data() == {first, second}
    assert orphan not in world.data()
    assert summary_of(context, "list_committed").counts["active_commits"] == 3


def test_trap_02_without_rules_dangling_commits_count_too() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "topic", "main")
    dangling = world.upload("topic", b"topic", "topic")
    world.lake.commit("topic", "topic")
    catalog.branches.delete_branch(name, "topic")
    world.age(days=400)
    context = world.plan()
    world.run(context)
    assert dangling in world.data()
    assert summary_of(context, "subtract").counts["candidates_objects"] == 0


def test_trap_02_a_404_that_is_not_no_rules_stops_the_run() -> None:
    world, kept, orphan = committed_world()

    def missing(*_: object) -> PreparedCommits | None:
        raise RefusedError("prepare_commits of lake: lakeFS answered 404 'commit not found'")

    world.client.prepare_commits = missing
    with pytest.raises(RefusedError, match="404"):
        world.collect()
    assert {kept, orphan} <= world.data()


@pytest.mark.parametrize("content", [b"", b"commit_id,expired,metarange_id\n", b"\xff\xfe", b"<html>"])
def test_trap_02_an_empty_or_odd_list_of_commits_stops_the_run(content: bytes) -> None:
    world, kept, orphan = committed_world()
    world.rules(30)
    honest = world.client.prepare_commits

    def spoiled(repository: str, deadline_seconds: float) -> PreparedCommits | None:
        prepared = honest(repository, deadline_seconds)
        assert prepared is not None
        world.lake.objects.put(prepared.location.removeprefix(world.lake.namespace + "/"), content)
        return prepared

    world.client.prepare_commits = spoiled
    with pytest.raises(DredgeError, match="Nothing was deleted"):
        world.collect()
    assert {kept, orphan} <= world.data()


def test_trap_02_a_list_of_commits_that_is_not_there_stops_the_run() -> None:
    world, kept, orphan = committed_world()
    world.rules(30)
    location = f"{world.lake.namespace}/_lakefs/retention/gc/commits/run_id=x/commits.csv"
    world.client.prepare_commits = lambda *_: PreparedCommits("x", location)
    with pytest.raises(RefusedError, match="no such object"):
        world.collect()
    assert {kept, orphan} <= world.data()


def test_trap_08_ids_that_look_like_numbers_stay_text() -> None:
    rows = b"commit_id,expired,metarange_id\n1234567890123456e7890,false,\n00012,false,3e8\n"
    assert read_commits_csv(rows, "commits.csv") == {"1234567890123456e7890": "", "00012": "3e8"}


def test_trap_08_the_first_commit_has_no_metarange_and_none_is_fetched() -> None:
    world = make_world()
    world.rules(30)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    world.collect()  # nothing but the first commit
    assert orphan not in world.data()


def test_a_line_of_the_list_that_is_cut_off_is_refused() -> None:
    for line in (b"abc", b"abc,false", b"abc,true,def", b",false,def", b"abc,false,def,more"):
        with pytest.raises(FormatError):
            read_commits_csv(b"commit_id,expired,metarange_id\n" + line + b"\n", "commits.csv")


def range_files(world: World) -> list[str]:
    """Keys of range files and metaranges."""
    return [key for key in world.lake.keys("_lakefs/") if len(key) == len("_lakefs/") + 64]


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "flipped"])
@pytest.mark.parametrize("rules", [True, False])
def test_trap_09_a_damaged_range_or_metarange_stops_the_run(damage: str, rules: bool) -> None:
    for position in range(2):
        world, kept, orphan = committed_world()
        if rules:
            world.rules(30)
        key = sorted(range_files(world))[position]
        data = world.lake.objects.get(key)
        if damage == "missing":
            open_deleter(world.lake.namespace).delete([key])
        else:
            middle = len(data) // 2
            broken = {
                "empty": b"",
                "truncated": data[:-10],
                "flipped": data[:5] + bytes([data[5] ^ 1]) + data[6:middle] + data[middle:],
            }
            world.lake.objects.put(key, broken[damage])
        with pytest.raises((FormatError, RefusedError)) as raised:
            world.collect()
        assert key.removeprefix("_lakefs/") in str(raised.value)
        assert {kept, orphan} <= world.data()


@pytest.mark.parametrize("kind", ["ranges", "metaranges"])
def test_trap_09_another_tables_file_under_a_tables_name_stops_the_run(kind: str) -> None:
    world = make_world()
    world.rules(30)
    world.upload("a", b"1")
    world.lake.commit()
    first = set(range_files(world))
    world.upload("z", b"2")
    world.lake.commit()
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    second = sorted(set(range_files(world)) - first)
    tables = [key for key in [*sorted(first), *second] if _kind(world, key) == kind]
    world.lake.objects.put(tables[-1], world.lake.objects.get(tables[0]))
    world.client.objects = lambda *_, **__: []  # type: ignore[method-assign]  # a server would find it first
    context = world.plan()
    with pytest.raises(FormatError):
        world.run(context)
    assert context.folder.read_failure("list_committed") is not None
    assert orphan in world.data()


def _kind(world: World, key: str) -> str:
    return read_envelope(world.lake.objects.get(key), key, None, None).kind


def test_trap_18_a_tag_keeps_its_commit_unless_told_otherwise() -> None:
    for keep_tags in (True, False):
        world = make_world(keep_tags=keep_tags)
        world.rules(1)
        tagged = world.upload("a", b"first")
        commit = world.lake.commit("first")
        world.lake.catalog.tags.create_tag(world.lake.repository, "v1", commit.id)
        for content in (b"second", b"third"):
            world.age(days=3)
            world.upload("a", content)
            world.lake.commit()
        world.age(days=3)
        world.collect()
        assert (tagged in world.data()) is keep_tags


def test_trap_19_a_commit_that_the_servers_walk_loses_is_kept() -> None:
    """Vendor: X with an old child on one branch and a young one on another counts as expired."""
    lost = False
    for attempt in range(60):  # whether the walk loses it hangs on ids, which are drawn anew each time
        if lost:
            break
        world = seen_with(make_world(), defects=frozenset({"active_walk_early_stop"}))
        world.rules(30)
        catalog, name = world.lake.catalog, world.lake.repository
        replaced = world.upload("x", b"x")
        parent = world.lake.commit(f"X {attempt}")
        for branch in ("one", "two"):
            catalog.branches.create_branch(name, branch, parent.id)
        world.age(days=10)
        world.upload("x", b"old", "one")
        world.lake.commit("A1", "one")
        world.age(days=59)
        world.upload("x", b"young", "two")
        world.lake.commit("B1", "two")
        world.upload("x", b"main")
        world.lake.commit("main moves on")
        world.lake.catalog.branches.hard_reset(
            name, "main", catalog.branches.get_branch(name, "one").commit_id
        )
        world.age(days=2)
        context = world.plan()
        world.run(context)
        assert replaced in world.data()
        summary = context.folder.read_summary("list_committed")
        assert summary is not None
        lost = any("walk left out" in text for text in summary.warnings)
        if lost:
            (own,) = (found for found in summary.details["kept"] if found["name"] == OWN)
            assert (own["objects"], own["only_objects"]) == (1, 1)
    assert lost, "the server's walk never lost the commit, so the test proved nothing"


def test_trap_21_a_version_0_merge_follows_its_last_parent() -> None:
    world = make_world()
    world.rules(30)
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "side", "main")
    on_side = world.upload("side", b"side", "side")
    side = world.lake.commit("side", "side")
    on_main = world.upload("main", b"main")
    main = world.lake.commit("main")
    world.age(days=40)
    merge = CatalogCommit(
        id="",
        committer="old",
        message="merge",
        creation_date=world.lake.clock(),
        metarange_id=main.metarange_id,
        parents=(main.id, side.id),
        version=0,
        generation=9,
    )
    merge = replace(
        merge,
        id=compute_id(
            merge.committer,
            merge.message,
            merge.metarange_id,
            merge.creation_date,
            merge.metadata,
            merge.parents,
        ),
    )
    catalog.commits.create_commit_record(name, merge)
    catalog.branches.hard_reset(name, "main", merge.id)
    catalog.branches.delete_branch(name, "side")
    world.age(days=2)
    world.collect()
    # The young merge keeps its main parent, which is the last one: the line of "side".
    assert {on_main, on_side} <= world.data()


def test_trap_25_a_branch_made_from_an_expired_commit_before_the_sweep_is_found() -> None:
    """Vendor: sweeping an old mark deletes what the branch reads."""
    world = make_world()
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    old = world.upload("a", b"first")
    commit = world.lake.commit("first")
    for content in (b"second", b"third"):
        world.age(days=3)
        world.upload("a", content)
        world.lake.commit()
    world.age(days=3)
    with world.during("changes", lambda: catalog.branches.create_branch(name, "revived", commit.id)):
        context = world.plan()
        world.run(context)
    assert old in world.data()
    world.assert_readable("revived")


def test_trap_25_a_head_that_moves_while_deleting_stops_the_sweep_until_it_is_checked() -> None:
    world = make_world(
        safety={"heads_every_seconds": 0.01, "gate_every_seconds": 0}, tuning={"delete_keys": 1}
    )
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    old = {f"{number:02d}": world.upload(f"{number:02d}", b"first %d" % number) for number in range(30)}
    commit = world.lake.commit("first")
    for content in (b"second", b"third"):
        world.age(days=3)
        for path in old:
            world.upload(path, content + path.encode())
        world.lake.commit()
    world.age(days=3)
    context = world.plan()

    def revive(request: int, _keys: object) -> None:
        if request == 5:
            catalog.branches.create_branch(name, "revived", commit.id)
        if request == 6:
            time.sleep(0.5)  # long enough for the driver to look

    world.mark(context)
    with deleting(before=revive):
        bulk_delete(context, LocalRunner())
    ledger = context.folder.read_summary("bulk_delete")
    assert ledger is not None
    assert len(ledger.details["rechecks"]) == 2
    # What had gone before the branch was made cannot come back; what was left of it stays.
    lost = [address for address in world.served("revived").values() if address not in world.data()]
    assert len(lost) <= 6
    assert ledger.counts["kept_objects"] == len(old) - len(lost)
    assert ledger.counts["deleted_objects"] == len(old) + len(lost)


def test_trap_27_a_refs_dump_in_the_namespace_is_no_range_of_objects() -> None:
    world, kept, _ = committed_world()
    dumps = list((FOLDER.parent / "tables" / "refs_dump").glob("*.sst"))
    assert dumps
    for number, path in enumerate(dumps):
        world.lake.objects.put(f"_lakefs/{number:064x}", path.read_bytes())
    world.collect()
    assert world.data() == {kept}


def test_trap_28_files_that_are_no_tables_are_told_apart_by_content() -> None:
    world, kept, _ = committed_world()
    world.lake.objects.put("_lakefs/dummy", b"a claim on the namespace, longer than a footer " * 4)
    world.lake.objects.put("_lakefs/refs_manifest.json", b"{}")
    world.lake.objects.put("_lakefs/exported/main/x/part", b"exported")
    world.collect()
    assert world.data() == {kept}


def test_trap_29_rules_of_zero_days_are_no_rules() -> None:
    world = make_world()
    first = world.upload("a", b"first")
    world.lake.commit("first")
    second = world.upload("a", b"second")
    world.lake.commit("second")
    world.rules(0)
    world.age(days=400)
    world.collect()
    assert world.data() == {first, second}


def test_trap_30_a_branch_that_was_made_again_falls_under_the_rule_of_its_name() -> None:
    world = make_world()
    world.rules(1, main=100)
    first = world.upload("a", b"first")
    world.lake.commit("first")
    world.age(days=20)
    world.upload("a", b"second")
    world.lake.commit("second")
    world.age(days=20)
    world.collect()
    assert first in world.data()


def test_trap_32_a_read_only_repository_is_refused_not_taken_for_empty() -> None:
    world, kept, orphan = committed_world()
    honest = world.client.repository
    world.client.repository = lambda name: replace(honest(name), read_only=True)
    with pytest.raises(RefusedError, match="read-only"):
        world.collect()
    assert {kept, orphan} <= world.data()


def test_trap_32_a_repository_that_is_gone_is_refused_not_taken_for_empty() -> None:
    world, kept, orphan = committed_world()
    world.lake.catalog.repositories.delete_repository(world.lake.repository)
    with pytest.raises(DredgeError):
        world.collect()
    assert {kept, orphan} <= world.data()


def test_trap_41_a_head_without_its_commit_stops_the_run_before_the_server_is_asked() -> None:
    world, kept, orphan = committed_world()
    world.rules(30)
    asked: list[str] = []
    world.client.before = lambda name, _: asked.append(name)
    honest = world.client.branches
    world.client.branches = lambda name: [*honest(name), Ref("broken", "f" * 64)]
    with pytest.raises(RefusedError, match="hard reset"):
        world.collect()
    assert "prepare_commits" not in asked
    assert {kept, orphan} <= world.data()


class OneCommit:
    """A server that denies a commit's full id, as a poisoned cache does, and every log of the ref."""

    def __init__(self) -> None:
        self.record = Commit("a" * 64, (), make_world().lake.clock(), "m", 1)

    def log(self, repository: str, ref: str) -> object:
        raise NotFoundError("commit not found")

    def commit(self, repository: str, commit_id: str) -> Commit:
        return self.record


def test_trap_42_a_denied_id_is_looked_up_another_way() -> None:
    graph = load_graph(OneCommit(), "lake", [Ref("main", "a" * 64)])
    assert set(graph) == {"a" * 64}


def test_a_log_that_ends_early_is_completed_by_ids() -> None:
    world = make_world()
    for number in range(5):
        world.upload("a", b"%d" % number)
        world.lake.commit(f"commit {number}")
    honest = world.client.log
    world.client.log = lambda repository, ref: list(honest(repository, ref))[:2]
    branch = world.client.branches("lake")[0]
    graph = load_graph(world.client, "lake", [branch])
    assert len(graph) == 6


def test_a_young_commit_keeps_its_parent_by_whole_days() -> None:
    world = make_world()
    world.rules(10)
    first = world.upload("a", b"first")
    world.lake.commit("first")
    world.upload("a", b"second")
    world.lake.commit("second")
    world.age(days=10)
    world.collect()
    assert first in world.data()
    world.age(hours=1)
    world.collect()
    assert first not in world.data()
