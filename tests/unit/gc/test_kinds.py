"""The kinds of a report are the truth, whatever runs came before."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from tests.support.gc import World, make_world, summary_of

TRUTH = {"expired": (3, 27), "never_linked": (2, 12), "unreferenced": (6, 56)}
"""Objects and bytes of each kind."""


def aged_world() -> World:
    world = make_world()
    world.rules(30)
    for number in range(3):
        world.upload(f"a{number}", b"version 1")
    world.lake.commit("to expire")
    world.lake.catalog.branches.create_branch("lake", "doomed", "main")
    world.upload("lost", b"of a lost branch", "doomed")
    world.lake.commit("to dangle", "doomed")
    world.age(days=1)
    return world


def grow_old(world: World) -> None:
    for number in range(3):
        world.upload(f"a{number}", b"version 2")
    world.lake.commit("newer")
    world.lake.catalog.branches.delete_branch("lake", "doomed")
    for number in range(2):
        world.orphan(f"data/orphans/{number}")
        full = world.lake.catalog.addresses.get_physical_address("lake", "main", f"never{number}")
        world.orphan(full.removeprefix(f"{world.lake.namespace}/"))
    world.upload("s", b"staged one")
    world.upload("s", b"staged two")
    world.upload("s", b"the last")
    world.lake.catalog.objects.delete_object("lake", "main", "s")
    world.age(days=40)


def kinds(world: World, context: Run) -> dict[str, tuple[int, int]]:
    rows = context.folder.read_json("report.json")["rows"]
    verdict = "would be deleted" if context.plan.dry_run else "deleted"
    return {row["kind"]: (row["objects"], row["size_bytes"]) for row in rows if row["verdict"] == verdict}


RUNS: dict[str, dict[str, Any]] = {
    "dry": {"mode": "clean", "dry_run": True},
    "dry optimized": {"mode": "optimized", "dry_run": True},
    "clean": {"mode": "clean"},
    "optimized": {"mode": "optimized"},
    "held": {"mode": "optimized", "max_delete_objects": 0},
}
ORDERS = [
    ([], ["clean"]),
    ([], ["dry", "dry", "optimized"]),
    ([], ["held", "clean"]),
    (["dry"], ["clean"]),
    (["clean"], ["clean"]),
    (["clean"], ["dry", "optimized"]),
    (["clean"], ["dry optimized", "dry", "held", "optimized"]),
    (["clean", "optimized"], ["dry optimized", "clean"]),
    (["dry", "optimized", "optimized"], ["held", "held", "optimized"]),
]


@pytest.mark.parametrize(("before", "after"), ORDERS, ids=lambda names: "+".join(names) or "nothing")
def test_kinds_are_the_truth_in_every_order_of_runs(before: list[str], after: list[str]) -> None:
    world = aged_world()
    for name in before:
        world.age(hours=1)
        world.collect(**RUNS[name])
    grow_old(world)
    for name in after:
        world.age(hours=1)
        context = world.plan(**RUNS[name])
        if name == "held":
            with pytest.raises(RefusedError):
                world.run(context)
            release_lease(context)  # it waits for an answer
            continue
        world.run(context)
        assert kinds(world, context) == TRUTH, name
    world.age(hours=1)
    context = world.plan(mode="clean")
    world.run(context)
    assert kinds(world, context) == {}


def test_what_a_run_left_keeps_its_kind() -> None:
    """Young when its commit expired, so that a later run finds it among what was carried."""
    world = aged_world()
    world.collect(mode="clean")
    for number in range(3):
        world.upload(f"a{number}", b"version 2")
    world.lake.commit("newer")
    world.lake.catalog.branches.delete_branch("lake", "doomed")
    world.age(days=40)
    world.collect(mode="optimized", unsafe_min_age_seconds=41.5 * 86400, slice_margin_hours=2000)
    world.age(days=1)
    context = world.plan(mode="optimized")
    world.run(context)
    assert kinds(world, context)["expired"] == TRUTH["expired"]


def test_the_report_says_of_which_commits_it_speaks() -> None:
    world = aged_world()
    grow_old(world)
    context = world.plan(mode="clean")
    world.run(context)
    counts = summary_of(context, "list_committed").counts
    heads_and_history = {
        commit.id for commit in world.lake.catalog.commits.log("lake", "main", amount=100).results
    }
    assert counts["reachable_commits"] == len(heads_and_history)
    assert counts["active_commits"] == 1
    assert (counts["expired_commits"], counts["dangling_commits"]) == (len(heads_and_history) - 1, 0)
    facts = dict(context.folder.read_json("report.json")["facts"])
    assert facts["Active commits"] == "1"
