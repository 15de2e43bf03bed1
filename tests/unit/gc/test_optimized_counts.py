"""What an optimized run counts of what is committed, on top of what the run before counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dredge.gc.run import Run
from dredge.storage import open_deleter, open_reader, open_writer
from lakefs_embedded.catalog.imports import ImportPath
from tests.support.gc import World, make_world, summary_of

COMMITTED = "list_committed"


def run(world: World) -> Run:
    context = world.plan(mode="optimized")
    world.run(context)
    return context


def delete(world: World, *paths: str) -> None:
    for path in paths:
        world.lake.catalog.objects.delete_object(world.lake.repository, "main", path)
    world.lake.commit()
    world.age(days=31)


def lose_ranges(world: World, context: Run) -> None:
    """Damage the files of the ranges that are active in a run, so that nobody can tell what dropping them drops."""
    part = summary_of(context, COMMITTED).part(f"{COMMITTED}/ranges-00000.parquet")
    for range_id in context.folder.read_part(part)["range_id"].to_pylist():
        world.lake.objects.put(f"_lakefs/{range_id}", b"damaged")
    world.age(days=2)


@pytest.mark.parametrize("lost", [False, True])
def test_where_all_that_is_committed_lies_elsewhere_an_optimized_run_goes_on(
    tmp_path: Path, lost: bool
) -> None:
    elsewhere = f"file://{tmp_path}/elsewhere"
    for name in ("one", "two", "three"):
        open_writer(elsewhere).put(name, b"elsewhere")
    world = make_world(mode="auto")
    world.rules(30)

    def take_in(name: str) -> None:
        path = ImportPath("object", f"{elsewhere}/{name}", name)
        world.lake.catalog.imports.import_start(
            world.lake.repository, "main", [path], open_reader, committer="anna"
        )

    def counts(context: Run) -> tuple[int, int]:
        found = summary_of(context, COMMITTED).counts
        assert (found["live_addresses"], found["outside_rows"]) == (0, found["range_rows"])
        return found["range_rows"], found["dropped_ranges"]

    take_in("one")
    world.age(days=9)
    world.collect()
    assert counts(run(world)) == (1, 0)
    take_in("two")
    before = run(world)
    assert counts(before) == (2, 0)
    delete(world, "one")
    take_in("three")
    if lost:
        lose_ranges(world, before)
    assert counts(run(world)) == ((3, 1) if lost else (2, 1))


def lose_summary(context: Run) -> None:
    (key,) = (
        key
        for batch in context.folder.writer.list(COMMITTED)
        for key in batch["key"].to_pylist()
        if key.endswith("/_SUCCESS.json")
    )
    open_deleter(context.plan.run_uri).delete([key])


@pytest.mark.parametrize("lost", [None, lose_summary])
def test_where_nothing_is_live_any_more_an_optimized_run_counts_nothing(
    lost: Callable[[Run], None] | None,
) -> None:
    """Its counts have what was added and what was taken away; where the base does not tell, that is too many."""
    world = make_world(mode="auto")
    world.rules(30)
    for path in ("a", "b"):
        world.upload(path, path.encode())
    world.lake.commit()
    world.age(days=9)
    clean = world.plan()
    world.run(clean)
    if lost is not None:
        lost(clean)
    assert summary_of(run(world), COMMITTED).counts["live_addresses"] == 2
    delete(world, "a", "b")
    world.lake.commit("younger", allow_empty=True)
    world.age(days=31)
    assert summary_of(run(world), COMMITTED).counts["live_addresses"] == (0 if lost is None else 4)
