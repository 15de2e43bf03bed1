"""Renames while a collection reads what is staged (profile `design`, where a copy shares its bytes)."""

from __future__ import annotations

import pytest

from dredge.gc.steps import check_limits, list_committed, mark_uncommitted, slice_listing, subtract
from lakefs_embedded.catalog.copies import Copies
from tests.support.gc import World, make_world, seen_with, summary_of


def rename_world() -> World:
    world = make_world()
    return seen_with(world, profile="design", prepare_flush_rows=1, prepare_file_bytes_max=4)


def renamed_during_the_second_page(world: World) -> str:
    """A rename to a path that has been read already, of one that has not; gives the address."""
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("m", b"m")
    address = world.upload("z", b"z")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    pages: list[object] = []

    def before(called: str, arguments: tuple[object, ...]) -> None:
        if called == "prepare_uncommitted":
            pages.append(arguments)
            if len(pages) == 2:
                catalog.objects.copy_object(name, "main", "a", "z")
                catalog.objects.delete_object(name, "main", "z")

    world.client.before = before
    context = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(context, world.runner)
    assert len(pages) >= 2
    parts = summary_of(context, "subtract").parts_below("subtract/part-")
    candidates = {
        row for part in parts for row in context.folder.read_part(part, ["address"])["address"].to_pylist()
    }
    assert orphan in candidates
    check_limits(context, world.runner)
    return "candidate" if address in candidates else "kept"


def test_an_object_renamed_while_staging_is_read_is_no_candidate() -> None:
    assert renamed_during_the_second_page(rename_world()) == "kept"


def test_without_tracking_the_end_of_the_branch_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copies, "track", lambda *_args: "")
    assert renamed_during_the_second_page(rename_world()) == "kept"
