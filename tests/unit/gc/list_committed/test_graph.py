"""The history of refs, and the server's list of active commits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.list_committed.history import load_graph, read_commits_csv
from dredge.lakefs import Commit, Ref
from lakefs_embedded.catalog import Commit as CatalogCommit
from lakefs_embedded.committed.commits import commit_id as compute_id
from tests.support.commits import committed_world
from tests.support.gc import make_world


def test_trap_08_ids_that_look_like_numbers_stay_text() -> None:
    rows = b"commit_id,expired,metarange_id\n1234567890123456e7890,false,\n00012,false,3e8\n"
    assert read_commits_csv(rows, "commits.csv") == {"1234567890123456e7890": "", "00012": "3e8"}


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
