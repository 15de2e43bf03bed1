"""Whole clean runs in memory: every kind of garbage goes, every look-alike stays."""

import json

import pytest

from dredge.errors import RefusedError
from dredge.gc.steps import Run, check_limits
from dredge.runs.tasks import LocalRunner
from tests.support.gc import Parallel, World, make_world


def report_of(context: Run) -> dict:
    found: dict = context.folder.read_json("report.json")
    return found


def garbage_of_every_kind(world: World) -> dict[str, str]:
    catalog, name = world.lake.catalog, world.lake.repository
    made = {}
    made["overwritten before a commit"] = world.upload("over", b"first")
    world.upload("over", b"second")
    made["deleted before a commit"] = world.upload("gone", b"gone")
    catalog.objects.delete_object(name, "main", "gone")
    catalog.branches.create_branch(name, "reset", "main")
    made["reset"] = world.upload("reset", b"reset", "reset")
    catalog.branches.reset_branch(name, "reset")
    catalog.branches.create_branch(name, "dropped", "main")
    made["on a deleted branch"] = world.upload("dropped", b"dropped", "dropped")
    catalog.branches.delete_branch(name, "dropped")
    full = catalog.addresses.get_physical_address(name, "main", "linkme")
    made["never linked"] = full.removeprefix(world.lake.namespace + "/")
    world.orphan(made["never linked"], b"never linked")
    made["never named"] = world.orphan("data/some/where/deep//and odd/%20", b"orphan")
    made["beside slices"] = world.orphan("data/plain", b"plain")
    return made


def look_alikes(world: World) -> dict[str, str]:
    catalog, name = world.lake.catalog, world.lake.repository
    made = {}
    made["staged"] = world.upload("staged", b"staged")
    catalog.branches.create_branch(name, "hidden", "main", hidden=True)
    made["staged on a hidden branch"] = world.upload("hidden", b"hidden", "hidden")
    catalog.branches.create_branch(name, "feature", "main")
    made["committed on another branch"] = world.commit("feature", b"feature", "feature")
    made["copied from"] = world.upload("source", b"copy me")
    made["copied to"] = world.lake.address(
        catalog.objects.copy_object(name, "main", "target", source_path="source")
    )
    made["with new metadata"] = world.upload("meta", b"meta")
    catalog.objects.update_user_metadata(name, "main", "meta", {"k": "v"})
    made["same bytes once more"] = world.upload("twin", b"staged")
    made["an odd path"] = world.upload("odd/%20 ü/a//b?#", b"odd")
    return made


@pytest.mark.parametrize("shard_values", [1, 32 << 20])
def test_every_kind_of_garbage_goes_and_every_look_alike_stays(shard_values: int) -> None:
    world = make_world(tuning={"shard_values": shard_values, "part_rows": 2, "candidate_rows": 2})
    world.runner = Parallel()
    world.rules(30)
    base = world.commit("base", b"base")
    garbage = garbage_of_every_kind(world)
    living = look_alikes(world)
    world.age(days=2)
    before = world.data()
    world.collect()
    gone = before - world.data()
    assert gone == set(garbage.values())
    assert {base, *living.values()} <= world.data()
    for branch in ("main", "hidden", "feature", "reset"):
        world.assert_readable(branch)


def test_expired_commits_let_go_and_active_ones_do_not() -> None:
    world = make_world(rules=30)
    first = world.commit("a", b"first")
    second = world.commit("a", b"second")
    world.age(days=40)
    third = world.commit("a", b"third")
    world.collect_after(days=2)
    # The newest commit beyond the threshold stays: a reader could still have been at it.
    assert world.data() == {second, third}
    assert first not in world.data()


def test_a_dangling_commit_expires_by_the_default_rule() -> None:
    world = make_world(rules=30)
    world.commit("base", b"base")
    world.lake.catalog.branches.create_branch(world.lake.repository, "topic", "main")
    dangling = world.commit("topic", b"topic", "topic")
    world.lake.catalog.branches.delete_branch(world.lake.repository, "topic")
    world.collect_after(days=10)
    assert dangling in world.data()
    world.collect_after(days=30)
    assert dangling not in world.data()


def test_a_dry_run_deletes_nothing_and_says_what_it_would() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.orphan("data/orphan")
    world.age(days=2)
    context = world.plan(dry_run=True)
    before = world.data()
    world.run(context)
    assert world.data() == before
    report = report_of(context)
    assert report["outcome"] == "dry_run"
    assert report["counts"]["deletable_objects"] == 1
    # Nothing that lakeFS's own collector could sweep from later.
    names = {info.key for info in context.folder.writer.list_level("deleted/").objects}
    assert not names
    assert json.loads(context.folder.writer.get("summary.json"))["num_deleted_objects"] == 0


def test_a_run_writes_what_the_vendors_collector_writes() -> None:
    world = make_world()
    world.upload("a", b"1")
    orphan = world.orphan("data/slice/x,y")
    world.age(days=2)
    context = world.collected()
    summary = json.loads(context.folder.writer.get("summary.json"))
    assert summary["success"] is True
    assert summary["num_deleted_objects"] == 1
    assert summary["run_id"] == context.plan.run_id
    assert summary["cutoff_time"].endswith("Z")
    assert context.folder.writer.get("deleted.text/part-00000.txt").decode() == f"{orphan}\n"
    assert "<html" in context.folder.writer.get("report.html").decode()


@pytest.mark.parametrize(
    ("limit", "value"),
    [("max_delete_objects", 1), ("max_delete_bytes", 5), ("max_delete_percent", 10.0)],
)
def test_a_limit_holds_the_run_and_nothing_is_deleted(limit: str, value: float) -> None:
    world = make_world()
    world.upload("a", b"1")
    world.orphan("data/x", b"123")
    world.orphan("data/y", b"123")
    world.age(days=2)
    before = world.data()
    context = world.plan(**{limit: value})
    with pytest.raises(RefusedError, match="limit"):
        world.run(context)
    assert world.data() == before
    report = report_of(context)
    assert report["outcome"] == "awaiting_approval"
    assert "2 objects" in report["headline"]


def test_steps_out_of_order_are_refused() -> None:
    world = make_world()
    world.upload("a", b"1")
    context = world.plan()
    with pytest.raises(RefusedError, match="slice_listing"):
        check_limits(context, LocalRunner())
