"""Branches are asked for all their changes with few requests, or there is no proof."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.gc.steps import mark_uncommitted, slice_listing
from lakefs_embedded.catalog import branches as catalog_branches
from lakefs_embedded.catalog import uncommitted as catalog_uncommitted
from tests.support.gc import summary_of
from tests.support.lossy_scans import counting, cut_after, latin_1, over_json, stormy_world
from tests.support.storms import Storm


def test_a_branch_with_thousands_of_changes_is_asked_by_pages() -> None:
    world, living, _ = stormy_world(staged=2500, safety={"staged_questions_max": 40})
    context = world.plan()
    slice_listing(context, world.runner)
    asked = counting(world)
    with Storm(world, ["mm"]):
        mark_uncommitted(context, world.runner)
    counts = summary_of(context, "mark_uncommitted").counts
    assert counts["unscanned_addresses"] == len(living)
    assert asked["stat"] + asked["objects"] < 100


def test_changes_among_many_committed_objects_are_asked_one_by_one() -> None:
    world, living, _ = stormy_world(staged=3000)
    world.lake.commit("many", "aa")
    changed = {world.upload(f"path/{number:04d}", b"new %d" % number, "aa") for number in range(0, 3000, 100)}
    world.age(days=2)
    context = world.plan()
    slice_listing(context, world.runner)
    asked = counting(world)
    with Storm(world, ["mm"]):
        mark_uncommitted(context, world.runner)
    staged = summary_of(context, "mark_uncommitted")
    found = {
        row
        for part in staged.parts_below("mark_uncommitted/addresses-")
        for row in context.folder.read_part(part)["address"].to_pylist()
    }
    assert found == changed
    assert living.isdisjoint(found)
    assert asked["stat"] < 60


def test_a_list_of_changes_that_hides_an_error_of_the_store_is_no_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same record cannot be read by the scan and by the list of changes; a listing says so."""
    world, living, orphan = stormy_world()
    cut_after(monkeypatch, 3, catalog_uncommitted)
    honest = catalog_branches.staged_diffs

    def cut(*arguments: Any) -> Iterator[Any]:
        return itertools.takewhile(lambda row: row[0] < b"path/0003", honest(*arguments))

    monkeypatch.setattr(catalog_branches, "staged_diffs", cut)

    def fail(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "objects" and arguments[1] == "aa":
            raise UnavailableError("500 while the branch is listed")

    context = world.plan()
    slice_listing(context, world.runner)
    world.client.before = fail
    with pytest.raises(UnavailableError, match="listed"):
        mark_uncommitted(context, world.runner)
    assert {orphan, *living} <= world.data()


def test_a_branch_that_is_made_again_between_two_questions_is_no_reason_to_stop() -> None:
    world, living, orphan = stormy_world()
    world.upload("gone", b"gone", "n001")
    world.age(days=2)

    def remake(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "stat" and arguments[1] == "n001":
            world.client.before = lambda _name, _arguments: None
            world.lake.catalog.branches.delete_branch(world.lake.repository, "n001")
            world.lake.catalog.branches.create_branch(world.lake.repository, "n001", "main")

    world.client.before = remake
    with Storm(world, ["mm"]):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_what_a_branch_has_under_paths_that_are_not_utf8_is_not_taken_for_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, living, orphan = stormy_world(staged=5, safety={"canary_objects": 0})
    living |= {world.upload(latin_1(f"caf\xe9/{number:04d}"), b"l%d" % number, "aa") for number in range(9)}
    world.age(days=2)
    over_json(world, monkeypatch)
    with Storm(world, ["mm"]), pytest.raises(RefusedError, match="caf"):
        world.collect()
    assert {orphan, *living} <= world.data()


def test_what_is_deleted_while_branches_are_asked_is_no_reason_to_stop() -> None:
    world, living, orphan = stormy_world()
    gone = world.served("aa")["path/0000"]

    def delete() -> None:
        world.lake.catalog.objects.delete_object("lake", "aa", "path/0000")

    with Storm(world, ["mm"]), world.during("stat", delete):
        world.collect()
    assert living - {gone} <= world.data()
    assert orphan not in world.data()
