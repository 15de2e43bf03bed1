"""Branches are asked at every path that could serve a copy; only lakeFS's own words are an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dredge.errors import FormatError, NotFoundError, UnavailableError
from dredge.gc.check_limits import codes, questions
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.lakefs import ObjectStats
from tests.support.gc import World, make_world, summary_of
from tests.support.identical import held, many, shown

pytestmark = pytest.mark.usefixtures("without_canaries")


def test_every_path_of_the_size_is_asked_on_every_branch() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.upload("b", b"size")
    world.lake.commit()
    for name in ("one", "two"):
        world.lake.catalog.branches.create_branch(world.lake.repository, name, "main")
    again = world.upload("b", b"size", "two")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert orphan not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 6


def test_many_paths_are_asked_by_pages_of_the_listing() -> None:
    world = make_world()
    many(world, 40)
    twins = {world.upload(f"many/{number:05d}", b"same") for number in (0, 7, 39)}
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert twins <= world.data()
    assert orphan not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 1
    assert sorted(shown(context)) == sorted(twins)


def short_pages(world: World, entries: int) -> None:
    """A server whose pages stop early, as when much lies between."""
    honest = world.client.objects_page

    def page(
        repository: str, ref: str, after: str = "", amount: int = 1000
    ) -> tuple[list[ObjectStats], bool]:
        return honest(repository, ref, after, min(amount, entries))

    world.client.objects_page = page  # type: ignore[method-assign]


@pytest.mark.parametrize("entries", [1, 7])
def test_a_page_that_stops_short_is_gone_on_with(entries: int) -> None:
    world = make_world()
    many(world, 40)
    twins = {world.upload(f"many/{number:05d}", b"same") for number in (0, 7, 39)}
    for number in range(30):  # not in the head, so nobody counted on them
        world.upload(f"many/00020-{number:02d}", b"staged meanwhile")
    orphan = world.orphan("data/slice/orphan", b"else")
    short_pages(world, entries)
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert twins <= world.data()
    assert orphan not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] >= 40 // entries


def test_requests_never_exceed_their_bound_and_what_is_left_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PAGE", 40)
    world = make_world(safety={"identical_requests_max": 13})
    many(world, 40)
    world.upload("sole", b"a length of its own")
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan", b"else")
    cleared = world.orphan("data/slice/cleared", b"A LENGTH OF ITS OWN")
    short_pages(world, 4)
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert orphan in world.data()
    assert cleared not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 2
    assert held(context) == {codes.TOO_MANY: 1}
    assert any("kv_conn_id" in text for text in summary_of(context, "check_limits").warnings)


def odd_answer(_repository: str, _ref: str, *_: object) -> None:
    raise FormatError("the server's answer (200) is not JSON: '<html>'")


def no_answer(_repository: str, _ref: str, *_: object) -> None:
    raise UnavailableError("lakeFS answered 503 'slow down'")


def answer_of_another(_repository: str, _ref: str, *_: object) -> object:
    raise KeyError("path")


@pytest.mark.parametrize("answer", [odd_answer, no_answer, answer_of_another])
@pytest.mark.parametrize("count", [1, 40])
def test_without_an_answer_objects_of_that_size_are_held_and_the_run_goes_on(
    answer: Callable[..., Any], count: int
) -> None:
    world = make_world()
    many(world, count)
    again = world.upload("many/00000", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    other = world.orphan("data/slice/other", b"of another length")
    world.client.stat = world.client.objects_page = answer  # type: ignore[assignment, method-assign]
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert {again, orphan} <= world.data()
    assert other not in world.data()
    assert held(context) == {codes.NO_ANSWER: 2}
    kept = {group["code"] for group in summary_of(context, "bulk_delete").details["groups"] if group["code"]}
    assert kept == {codes.NO_ANSWER}


def test_a_server_that_stays_away_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    for number in range(100):
        world.upload(f"{number:03d}", b"same")
        for filler in range(3):
            world.upload(f"{number:03d}-{filler}", b"x" * (5 + number * 3 + filler))
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan", b"else")
    monkeypatch.setattr(questions, "PAGE", 4)
    asked: list[str] = []

    def stat(_repository: str, _ref: str, path: str) -> None:
        asked.append(path)
        raise UnavailableError("connection refused")

    world.client.stat = stat  # type: ignore[assignment, method-assign]
    world.age(days=2)
    world.collect()
    assert orphan in world.data()
    assert len(asked) < 40


def test_an_answer_about_another_path_is_none() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    again = world.upload("a", b"same")
    world.client.stat = lambda *_: ObjectStats("b", f"{world.lake.namespace}/data/x", "c", 4)  # type: ignore[method-assign]
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}


def test_a_page_that_does_not_begin_where_it_should_is_no_answer() -> None:
    """Something in between dropped the query: the first page of the branch, whatever was asked for."""
    world = make_world()
    for number in range(20):
        world.upload(f"before/{number:02d}", b"%d" % number)
    many(world, 40)
    again = world.upload("many/00039", b"same")
    honest = world.client.objects_page
    world.client.objects_page = (  # type: ignore[method-assign]
        lambda repository, ref, after="", amount=1000: (honest(repository, ref, "", amount)[0][:10], False)
    )
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}


def test_a_branch_that_is_gone_serves_nothing() -> None:
    world = make_world()
    many(world, 40)
    world.lake.catalog.branches.create_branch(world.lake.repository, "gone", "main")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(context, world.runner)
    world.lake.catalog.branches.delete_branch(world.lake.repository, "gone")
    check_limits(context, world.runner)
    bulk_delete(context, world.runner)
    assert orphan not in world.data()


def test_a_missing_page_of_a_branch_that_is_there_is_no_answer() -> None:
    """A head that cannot be read is "not found" as well, and then nobody looked at what is staged."""
    world = make_world()
    many(world, 40)
    again = world.upload("many/00000", b"same")

    def missing(*_: object) -> None:
        raise NotFoundError("commit not found")

    world.client.objects_page = missing  # type: ignore[assignment, method-assign]
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}


def test_a_branch_with_the_name_of_a_commit_gives_no_answer() -> None:
    """A server refuses such a name for a commit that exists, and takes it for the commit when that comes later."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    name = "c0ffee" * 10 + "c0ff"
    world.lake.catalog.branches.create_branch(world.lake.repository, name, "main")
    again = world.upload("a", b"same", name)
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}
