"""Pages of the server's scan: each of these loses data with a collector that trusts one answer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dredge.errors import RefusedError
from tests.support.gc import make_world, seen_with


def test_trap_03_pages_are_united_whatever_the_last_one_says() -> None:
    """Vendor: an empty last page makes it forget everything that is staged."""
    world = seen_with(
        make_world(),
        defects=frozenset({"empty_last_page"}),
        prepare_flush_rows=1,
        prepare_file_bytes_max=16,
    )
    staged = {world.upload(f"path/{number:02d}", b"%d" % number) for number in range(20)}
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    summary = context.folder.read_summary("mark_uncommitted")
    assert summary is not None
    assert summary.counts["pages"] > 2
    assert summary.counts["empty_pages"] >= 1
    assert world.data() == staged
    assert orphan not in world.data()


def test_trap_43_a_repeated_token_stops_the_run() -> None:
    world = seen_with(
        make_world(),
        defects=frozenset({"repeated_token"}),
        prepare_flush_rows=1,
        prepare_file_bytes_max=16,
    )
    for number in range(20):
        world.upload(f"path/{number:02d}", b"%d" % number)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    with pytest.raises(RefusedError, match="token"):
        world.collect()
    assert orphan in world.data()


def test_trap_43_pages_without_rows_are_normal() -> None:
    world = seen_with(make_world(), prepare_interval=timedelta(0))
    for number in range(5):
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{number}", "main")
    staged = world.upload("a", b"1")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    summary = context.folder.read_summary("mark_uncommitted")
    assert summary is not None
    assert summary.counts["empty_pages"] > 1
    assert staged in world.data()


def test_a_page_whose_file_is_missing_stops_the_run() -> None:
    world = seen_with(make_world(), defects=frozenset({"page_missing"}))
    staged = world.upload("a", b"1")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    with pytest.raises(RefusedError, match=r"1 pages.*\b0\b"):
        world.collect()
    assert {staged, orphan} <= world.data()
