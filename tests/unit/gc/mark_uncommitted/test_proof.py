"""What a server loses from a scan of staging is made good, or nothing is deleted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted import staging
from dredge.gc.mark_uncommitted.proof import _Prover, prove
from dredge.gc.mark_uncommitted.staged import Extent
from dredge.gc.steps import mark_uncommitted, slice_listing
from lakefs_embedded.catalog import uncommitted as catalog_uncommitted
from tests.support.gc import World, seen_with, summary_of
from tests.support.lossy_scans import counting, cut_after, latin_1, over_json, stormy_world
from tests.support.storms import Storm


@pytest.mark.parametrize(
    ("names", "remake"),
    [(["mm"], False), (["mm"], True), (["ab", "y"], False), (["ab", "y"], True)],
    ids=["born and gone", "made again", "two born and gone", "two made again"],
)
def test_sweep_keeps_staged_objects_while_branches_come_and_go_within_each_page(
    names: list[str], remake: bool
) -> None:
    """Names are equal before and after, and the answer shows nothing."""
    world, living, orphan = stormy_world(clean=200)
    with Storm(world, names, remake=remake) as storm:
        context = world.plan()
        world.run(context)
    assert storm.deleted == len(names) * storm.calls
    assert storm.calls == 2  # the mark's and the re-check's
    assert living <= world.data()
    assert orphan not in world.data()
    counts = summary_of(context, "mark_uncommitted").counts
    assert (counts["files"], counts["empty_pages"], counts["scans"]) == (0, 1, 1)
    assert counts["unscanned_addresses"] == counts["rows"] == 50


@pytest.mark.parametrize(("guard", "answer"), [("_tells", True), ("after", None)])
def test_pages_without_location_and_ends_of_branches_are_two_guards(
    monkeypatch: pytest.MonkeyPatch, guard: str, answer: bool | None
) -> None:
    """Each of them alone keeps what is lost with a vanished branch."""
    if guard == "_tells":
        monkeypatch.setattr(_Prover, "_tells", lambda *_: answer)
    else:
        monkeypatch.setattr(Extent, "after", lambda *_: answer)
    world, living, orphan = stormy_world()
    with Storm(world, ["mm"]):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_sweep_keeps_what_is_lost_in_the_middle_of_several_pages() -> None:
    """The page that is thrown away begins inside one branch and ends at another; those around it are whole."""
    world, living, orphan = stormy_world(clean=5)
    world = seen_with(world, prepare_flush_rows=1, prepare_file_bytes_max=2000)
    living |= {world.upload(f"path/{number}", b"z%d" % number, "zz") for number in range(5)}
    world.age(days=2)
    with Storm(world, ["mm"], slow="n002"):
        context = world.plan()
        world.run(context)
    assert living <= world.data()
    assert orphan not in world.data()
    counts = summary_of(context, "mark_uncommitted").counts
    assert counts["pages"] > 2
    assert counts["empty_pages"] == 1
    assert 0 < counts["unscanned_addresses"] < 50


def test_sweep_keeps_what_only_the_re_check_loses() -> None:
    world, living, orphan = stormy_world()
    again = world.orphan("data/slice/again")
    world.age(days=2)
    context = world.plan()
    world.mark(context)
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        "aa",
        "again",
        physical_address=f"{world.lake.namespace}/{again}",
        checksum="c",
        size_bytes=6,
    )
    with Storm(world, ["mm"]):
        world.run(context)
    assert {again, *living} <= world.data()
    assert orphan not in world.data()


def test_a_grace_does_not_stand_for_the_proof_of_the_re_checks_scan() -> None:
    """Two marks, a grace apart, have found the object, each with its proof. It is staged again after the second one,
    and the scan of the re-check, which alone could see that, loses the page: without its own proof the object is lost.
    """
    world, living, orphan = stormy_world(unsafe_grace_seconds=None, grace_hours=20)
    again = world.orphan("data/slice/again")
    world.age(days=2)
    world.collect()
    world.age(hours=21)
    context = world.plan()
    world.mark(context)
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        "aa",
        "again",
        physical_address=f"{world.lake.namespace}/{again}",
        checksum="c",
        size_bytes=6,
    )
    with Storm(world, ["mm"]):
        world.run(context)
    assert again in world.data()
    assert orphan not in world.data()
    assert living <= world.data()


def test_what_only_branches_showed_is_no_staging_that_vanished() -> None:
    world, living, orphan = stormy_world(safety={"staged_rows_plenty": 5})
    world.collect(dry_run=True)
    world.age(hours=1)
    with Storm(world, ["mm"]):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_where_too_much_would_have_to_be_asked_it_is_scanned_again() -> None:
    world, living, orphan = stormy_world(safety={"staged_questions_max": 3})
    with Storm(world, ["mm"], when=lambda call: call == 1):
        context = world.plan()
        world.run(context)
    assert summary_of(context, "mark_uncommitted").counts["scans"] == 2
    assert living <= world.data()
    assert orphan not in world.data()


def test_where_no_scan_can_be_proved_nothing_is_deleted() -> None:
    world, living, orphan = stormy_world(safety={"staged_questions_max": 3})
    with (
        Storm(world, ["mm"]) as storm,
        pytest.raises(RefusedError, match=r"5 scans.*\baa\b"),
    ):
        world.collect()
    assert storm.calls == 5
    assert {orphan, *living} <= world.data()


def test_branches_that_never_stand_still_do_not_keep_a_run_from_ending() -> None:
    world, living, orphan = stormy_world()
    numbers = itertools.count()

    def another() -> None:
        world.lake.catalog.branches.create_branch(world.lake.repository, f"new{next(numbers)}", "main")

    with world.during("prepare_uncommitted", another, times=1000):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def overwrite_the_last(world: World) -> None:
    world.upload("path/0049", b"another", "aa")


def append(world: World) -> None:
    for number in range(40):
        world.upload(f"path/new{number}", b"%d" % number, "aa")


@pytest.mark.parametrize("meanwhile", [lambda _: None, overwrite_the_last, append])
def test_sweep_keeps_the_rest_of_a_branch_that_ends_too_early_in_the_scan(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[World], None]
) -> None:
    """The page has a location, and a writer changes the end of the branch all the time."""
    world, living, orphan = stormy_world()
    cut_after(monkeypatch, 3, catalog_uncommitted)
    monkeypatch.setattr(staging, "prove", partial(prove, by_chance=0))
    served = world.served("aa")

    def write(name: str, _: object) -> None:
        if name == "prepare_uncommitted":
            meanwhile(world)

    world.client.before = write
    world.collect()
    overwritten = {served["path/0049"]} if meanwhile is overwrite_the_last else set()
    assert living - overwritten <= world.data()
    assert orphan not in world.data()


def test_an_object_with_new_metadata_on_two_branches_does_not_prove_the_end_of_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same objects are staged at the ends of both branches; the scan had them of one branch only."""
    world, living, orphan = stormy_world(safety={"canary_objects": 0})
    catalog, name = world.lake.catalog, world.lake.repository
    for number in range(3):
        world.upload(f"zz/{number}", b"shared %d" % number)
    world.lake.commit()
    for branch in ("ab", "yy"):
        catalog.branches.create_branch(name, branch, "main")
        for number in range(3):
            catalog.objects.update_user_metadata(name, branch, f"zz/{number}", {"on": branch})
    living |= {world.upload(f"path/{number:04d}", b"ab %d" % number, "ab") for number in range(9)}
    world.age(days=2)
    honest = catalog_uncommitted.UncommittedPage._uncommitted

    def cut(page: Any, branch: Any, start: str) -> Iterator[Any]:
        rows = honest(page, branch, start)
        return itertools.islice(rows, 2) if branch.tokens == world.lake.tokens("ab") else rows

    monkeypatch.setattr(catalog_uncommitted.UncommittedPage, "_uncommitted", cut)
    monkeypatch.setattr(staging, "prove", partial(prove, by_chance=0))
    world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_a_quiet_repository_with_500_branches_costs_two_requests_a_branch() -> None:
    world, _, _ = stormy_world(clean=500, staged=5)
    context = world.plan()
    slice_listing(context, world.runner)
    asked = counting(world)
    mark_uncommitted(context, world.runner)
    branches = 503
    assert asked["changes"] <= branches + 2
    assert asked["objects"] <= branches + 1
    assert asked["stat"] <= 3
    assert asked.total() <= 2 * branches + 10


def test_a_page_that_ends_at_a_path_that_is_not_utf8_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next page begins at the path as its token spells it: behind all others in the same folder."""
    world, living, orphan = stormy_world(staged=5, safety={"canary_objects": 0})
    world = seen_with(world, prepare_flush_rows=1, prepare_file_bytes_max=1000)
    living |= {world.upload(latin_1(f"caf\xe9/{number:04d}"), b"l%d" % number, "aa") for number in range(60)}
    world.age(days=2)
    over_json(world, monkeypatch)
    with pytest.raises(RefusedError, match=r"not UTF-8.*kv_conn_id"):
        world.collect()
    assert {orphan, *living} <= world.data()


def test_an_old_object_that_was_staged_after_the_scan_is_kept_and_costs_no_other_scan() -> None:
    world, living, orphan = stormy_world()
    again = world.orphan("data/slice/again")
    world.age(days=2)

    def stage() -> None:
        world.lake.catalog.objects.stage_object(
            world.lake.repository,
            "aa",
            "z-again",
            physical_address=f"{world.lake.namespace}/{again}",
            checksum="c",
            size_bytes=6,
        )

    with world.during("changes", stage):
        context = world.plan()
        world.run(context)
    assert {again, *living} <= world.data()
    assert orphan not in world.data()
    assert summary_of(context, "mark_uncommitted").counts["scans"] == 1
