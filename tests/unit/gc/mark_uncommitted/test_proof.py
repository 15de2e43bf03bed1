"""What a server loses from a scan of staging is made good, or nothing is deleted."""

from __future__ import annotations

import base64
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import NotFoundError, RefusedError, UnavailableError
from dredge.gc.mark_uncommitted import proof
from dredge.gc.mark_uncommitted.extents import Extent
from dredge.gc.mark_uncommitted.proof import _Prover
from dredge.gc.steps import mark_uncommitted, slice_listing
from dredge.graveler.catalog import branches as catalog_branches
from dredge.graveler.catalog import uncommitted as catalog_uncommitted
from dredge.graveler.catalog.uncommitted import Mark
from tests.support.gc import World, make_world, seen_with, summary_of
from tests.support.storms import Storm


def stormy_world(clean: int = 20, staged: int = 50, **settings: Any) -> tuple[World, set[str], str]:
    """Clean branches around one with old staged objects, an orphan, and a server that loses rows."""
    world = seen_with(make_world(**settings), defects=frozenset({"rows_lost_on_branch_delete"}))
    catalog, name = world.lake.catalog, world.lake.repository
    for branch in ("aa", "zz", *(f"n{number:03d}" for number in range(clean))):
        catalog.create_branch(name, branch, "main")
    living = {world.upload(f"path/{number:04d}", b"%d" % number, "aa") for number in range(staged)}
    orphan = world.orphan("data/slice/orphan")
    world.age(days=2)
    return world, living, orphan


@pytest.fixture
def asked() -> Counter[str]:
    return Counter()


def counting(world: World, asked: Counter[str]) -> None:
    world.client.before = lambda name, _: asked.update([name])


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
    world.lake.catalog.stage_object(
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


def test_a_branch_with_thousands_of_changes_is_asked_by_pages(asked: Counter[str]) -> None:
    world, living, _ = stormy_world(staged=2500, safety={"staged_questions_max": 40})
    context = world.plan()
    slice_listing(context, world.runner)
    counting(world, asked)
    with Storm(world, ["mm"]):
        mark_uncommitted(context, world.runner)
    counts = summary_of(context, "mark_uncommitted").counts
    assert counts["unscanned_addresses"] == len(living)
    assert asked["stat"] + asked["objects"] < 100


def test_changes_among_many_committed_objects_are_asked_one_by_one(asked: Counter[str]) -> None:
    world, living, _ = stormy_world(staged=3000)
    world.lake.commit("many", "aa")
    changed = {world.upload(f"path/{number:04d}", b"new %d" % number, "aa") for number in range(0, 3000, 100)}
    world.age(days=2)
    context = world.plan()
    slice_listing(context, world.runner)
    counting(world, asked)
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
        pytest.raises(RefusedError, match=r"in 5 scans\. The last one did not show .* on aa.*kv_conn_id"),
    ):
        world.collect()
    assert storm.calls == 5
    assert {orphan, *living} <= world.data()


def test_branches_that_never_stand_still_do_not_keep_a_run_from_ending() -> None:
    world, living, orphan = stormy_world()
    numbers = itertools.count()

    def another() -> None:
        world.lake.catalog.create_branch(world.lake.repository, f"new{next(numbers)}", "main")

    with world.during("prepare_uncommitted", another, times=1000):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def cut_after(monkeypatch: pytest.MonkeyPatch, rows: int, *modules: Any) -> None:
    """An error of the key-value store ends each branch's rows, and a real server does not say so."""
    honest = catalog_uncommitted.staged_diffs

    def cut(*arguments: Any) -> Iterator[Any]:
        return itertools.islice(honest(*arguments), rows)

    for module in modules:
        monkeypatch.setattr(module, "staged_diffs", cut)


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
    monkeypatch.setattr(proof, "_BY_CHANCE", 0)
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
        catalog.create_branch(name, branch, "main")
        for number in range(3):
            catalog.update_user_metadata(name, branch, f"zz/{number}", {"on": branch})
    living |= {world.upload(f"path/{number:04d}", b"ab %d" % number, "ab") for number in range(9)}
    world.age(days=2)
    honest = catalog_uncommitted.UncommittedPage._uncommitted

    def cut(page: Any, branch: Any, start: str) -> Iterator[Any]:
        rows = honest(page, branch, start)
        return itertools.islice(rows, 2) if branch.tokens == world.lake.tokens("ab") else rows

    monkeypatch.setattr(catalog_uncommitted.UncommittedPage, "_uncommitted", cut)
    monkeypatch.setattr(proof, "_BY_CHANCE", 0)
    world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


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


def test_a_branch_that_goes_before_it_is_asked_is_no_reason_to_stop() -> None:
    world, living, orphan = stormy_world()
    world.upload("gone", b"gone", "n001")

    def go(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "changes" and arguments[1] == "n001":
            world.client.before = lambda _name, _arguments: None
            world.lake.catalog.delete_branch(world.lake.repository, "n001")

    world.client.before = go
    world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_a_branch_that_is_made_again_between_two_questions_is_no_reason_to_stop() -> None:
    world, living, orphan = stormy_world()
    world.upload("gone", b"gone", "n001")
    world.age(days=2)

    def remake(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "stat" and arguments[1] == "n001":
            world.client.before = lambda _name, _arguments: None
            world.lake.catalog.delete_branch(world.lake.repository, "n001")
            world.lake.catalog.create_branch(world.lake.repository, "n001", "main")

    world.client.before = remake
    with Storm(world, ["mm"]):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_a_quiet_repository_with_500_branches_costs_two_requests_a_branch(asked: Counter[str]) -> None:
    world, _, _ = stormy_world(clean=500, staged=5)
    context = world.plan()
    slice_listing(context, world.runner)
    counting(world, asked)
    mark_uncommitted(context, world.runner)
    branches = 503
    assert asked["changes"] <= branches + 2
    assert asked["objects"] <= branches + 1
    assert asked["stat"] <= 3
    assert asked.total() <= 2 * branches + 10


def test_a_change_that_nothing_is_found_under_is_no_proof() -> None:
    """Such as a path that is not UTF-8, or a 404 of somebody who words it like lakeFS."""
    world, living, orphan = stormy_world()
    honest = world.client.stat

    def stat(repository: str, branch: str, path: str) -> object:
        if path == "path/0000":
            raise NotFoundError("not found")
        return honest(repository, branch, path)

    world.client.stat = stat  # type: ignore[method-assign, assignment]
    with Storm(world, ["mm"]), pytest.raises(RefusedError, match="nothing when it is asked"):
        world.collect()
    assert {orphan, *living} <= world.data()


def spoken(path: str) -> str:
    """A path as JSON of a real server has it: bytes that are not UTF-8 are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def latin_1(name: str) -> str:
    """A path of the embedded server whose bytes are those of another encoding."""
    return name.encode("latin-1").decode("utf-8", "surrogateescape")


def over_json(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers and tokens spell paths as a real server does."""
    for name in ("changes", "objects"):
        honest = getattr(world.client, name)

        def answer(*arguments: Any, honest: Callable[..., Any] = honest) -> list[Any]:
            return [replace(found, path=spoken(found.path)) for found in honest(*arguments)]

        setattr(world.client, name, answer)
    honest_encode = Mark.encode
    monkeypatch.setattr(Mark, "encode", lambda mark: honest_encode(replace(mark, path=spoken(mark.path))))


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


def test_what_a_branch_has_under_paths_that_are_not_utf8_is_not_taken_for_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, living, orphan = stormy_world(staged=5, safety={"canary_objects": 0})
    living |= {world.upload(latin_1(f"caf\xe9/{number:04d}"), b"l%d" % number, "aa") for number in range(9)}
    world.age(days=2)
    over_json(world, monkeypatch)
    with Storm(world, ["mm"]), pytest.raises(RefusedError, match="nothing when it is asked"):
        world.collect()
    assert {orphan, *living} <= world.data()


def test_what_is_deleted_while_branches_are_asked_is_no_reason_to_stop() -> None:
    world, living, orphan = stormy_world()
    gone = world.served("aa")["path/0000"]

    def delete() -> None:
        world.lake.catalog.delete_object("lake", "aa", "path/0000")

    with Storm(world, ["mm"]), world.during("stat", delete):
        world.collect()
    assert living - {gone} <= world.data()
    assert orphan not in world.data()


def test_an_old_object_that_was_staged_after_the_scan_is_kept_and_costs_no_other_scan() -> None:
    world, living, orphan = stormy_world()
    again = world.orphan("data/slice/again")
    world.age(days=2)

    def stage() -> None:
        world.lake.catalog.stage_object(
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


def token(branch: str, path: str = "") -> str:
    members = {"branch": branch, "path": path, "run_id": "r", "key": ""}
    return base64.b64encode(json.dumps(members).encode()).decode()


@pytest.mark.parametrize(
    ("extent", "starts"),
    [
        (Extent.between(None, None), {"a": "", "m": "", "z": ""}),
        (Extent.between(None, token("m")), {"a": "", "m": None, "z": None}),
        (Extent.between(None, token("m", "p")), {"a": "", "m": "", "z": None}),
        (Extent.between(token("m"), None), {"a": None, "m": "", "z": ""}),
        (Extent.between(token("m", "path/7"), token("z")), {"a": None, "m": "path/", "z": None}),
        (Extent.between("not a token", "nor this"), {"a": "", "m": "", "z": ""}),
        (Extent.between(token("m", "\ufffd7"), None), {"a": None, "m": "", "z": ""}),
        (Extent.between(token("é"), None), {"z": None, "é": "", "😀": ""}),
    ],
)
def test_what_a_page_may_have_covered(extent: Extent, starts: dict[str, str | None]) -> None:
    assert {branch: extent.after(branch) for branch in starts} == starts
