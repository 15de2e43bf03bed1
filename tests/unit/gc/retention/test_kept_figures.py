"""What the report says each kept set keeps."""

from __future__ import annotations

import pytest

from tests.support.gc import make_world, summary_of
from tests.support.policies import history, kept, policy


def test_each_set_is_told_with_what_only_it_keeps() -> None:
    world = make_world(policy=policy("name: two, last: 2", "name: three, last: 3"))
    world.rules(1)
    addresses = history(world, 6)
    commits = {
        found.message: found.id
        for found in world.lake.catalog.commits.log(world.lake.repository, "main", amount=100).results
    }
    world.lake.catalog.tags.create_tag(world.lake.repository, "v0", commits["main 0"])
    world.lake.catalog.tags.create_tag(world.lake.repository, "v4", commits["main 4"])
    left, sets = kept(world)
    assert left == {addresses[0], *addresses[-3:]}
    told = {name: (found["objects"], found["only_objects"]) for name, found in sets.items()}
    assert told == {
        "own walk": (0, 0),
        "tags": (2, 1),  # main 0 alone, main 4 with both rules
        "policy: two": (1, 0),
        "policy: three": (2, 1),
    }


def test_the_report_tells_what_each_set_keeps() -> None:
    world = make_world(policy=policy("name: recent, last: 3", "name: none, last: 1"))
    world.rules(1)
    history(world, 5)
    context = world.plan()
    world.run(context)
    report = context.folder.read_json("report.json")
    (row,) = (row for row in report["rows"] if row["kind"].startswith("policy: "))
    assert (row["kind"], row["verdict"], row["objects"]) == ("policy: recent", "kept", 2)
    assert row["size_bytes"] == 2 * len("main a 0")
    assert [found["name"] for found in report["kept"]] == [
        "own walk",
        "tags",
        "policy: recent",
        "policy: none",
    ]
    assert "policy: recent" in context.folder.writer.get("report.html").decode()


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_staged_or_active_elsewhere_is_not_told_as_kept_by_a_set(dry_run: bool) -> None:
    world = make_world(policy=policy("last: 4"))
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    addresses = history(world, 4)
    # The newest of the expired ones lives on another branch's head, the one before is staged.
    ids = {found.message: found.id for found in catalog.commits.log(name, "main", amount=100).results}
    catalog.branches.create_branch(name, "other", ids["main 2"])
    catalog.objects.stage_object(
        name,
        "other",
        "again",
        physical_address=f"{world.lake.namespace}/{addresses[1]}",
        checksum="c",
        size_bytes=8,
    )
    # The oldest object lives on under another path.
    catalog.objects.stage_object(
        name,
        "main",
        "b",
        physical_address=f"{world.lake.namespace}/{addresses[0]}",
        checksum="c",
        size_bytes=8,
    )
    world.lake.commit()
    left, sets = kept(world, dry_run=dry_run, policy=policy("last: 5"))
    assert left == set(addresses)
    assert (sets["policy: rule 1"]["objects"], sets["policy: rule 1"]["commits"]) == (0, 3)
    catalog.branches.delete_branch(name, "other")
    _, sets = kept(world, dry_run=dry_run, policy=policy("last: 5"))
    assert (sets["policy: rule 1"]["objects"], sets["policy: rule 1"]["commits"]) == (2, 3)


def test_an_optimized_run_tells_what_sets_keep_of_what_it_listed() -> None:
    world = make_world(policy=policy("last: 6"), slice_margin_hours=100)
    world.rules(1)
    addresses = history(world, 4)
    kept(world, mode="clean")
    addresses += history(world, 2, days=1.5, first=4)
    context = world.plan(mode="optimized")
    world.run(context)
    assert context.plan.mode == "optimized"
    (found,) = (
        item
        for item in summary_of(context, "list_committed").details["kept"]
        if item["name"].startswith("policy:")
    )
    assert 0 < found["objects"] < found["commits"] == 5
    assert set(addresses) <= world.data()
