"""Where canaries are looked for: in some branches, the default one among them, as many looks as there may be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import NotFoundError
from dredge.gc.check_limits import canaries
from dredge.gc.check_limits.canaries import Sizes, _changed, _choose, _Place
from dredge.lakefs import Change, ObjectStats
from tests.support.gc import World, make_world


def looked_at(world: World, sizes: Sizes | None = None) -> Counter[tuple[str, int]]:
    """The branches whose beginning a sample lists, with how many entries of it are asked for."""
    asked: Counter[tuple[str, int]] = Counter()
    honest = world.client.objects

    def objects(repository: str, branch: str, after: str, amount: int) -> list[ObjectStats]:
        if after == "":
            asked[branch, amount] += 1
        return honest(repository, branch, after, amount)

    world.client.objects = objects  # type: ignore[method-assign]
    canaries.sample(world.plan(), "check_limits", sizes or Sizes())
    return asked


@pytest.mark.parametrize(
    ("looks", "branches_max", "branches", "each"),
    [
        (30, 2, 2, 10),
        (30, 2, 5, 10),
        (30, 2, 1, 20),
        (30, 4, 2, 20),
        (30, 1000, 1, 200),
        (30, 0, 3, 10),
        (1, 1, 1, 1),
    ],
)
def test_the_looks_of_branches_that_are_not_there_go_to_those_that_are(
    looks: int, branches_max: int, branches: int, each: int
) -> None:
    """A third of a branch's looks is at its beginning, at its changes and all over its head each; of one branch not
    without end."""
    world = make_world(safety={"canary_objects": looks, "canary_branches": branches_max})
    for number in range(branches - 1):
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{number}", "main")
    asked = looked_at(world)
    assert asked["main", each] == 1
    assert {amount for _, amount in asked} == {each}
    assert len(asked) == max(1, min(branches_max, branches))


@pytest.mark.parametrize(("most", "amount"), [(19, 19), (20, 20), (21, 20)])
def test_of_the_beginning_of_a_branch_a_page_is_listed_at_most(most: int, amount: int) -> None:
    world = make_world(safety={"canary_objects": 30, "canary_branches": 2})
    assert looked_at(world, Sizes(page=most)) == Counter({("main", amount): 1})


@pytest.mark.parametrize(("wanted", "count"), [(0, 1), (1, 1), (3, 3), (5, 5), (6, 6), (9, 6)])
def test_the_default_branch_is_chosen_and_others_by_chance(wanted: int, count: int) -> None:
    world = make_world(safety={"canary_branches": wanted})
    for number in range(5):
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{number}", "main")
    run = world.plan()
    seen: Counter[str] = Counter()
    for seed in range(40):
        names = [branch.id for branch in _choose(run, random.Random(seed))]
        assert len(names) == len(set(names)) == count
        seen.update(names)
    assert seen["main"] == 40
    assert len(seen) == (6 if wanted > 1 else 1)


def changed(
    answers: dict[tuple[str, str], list[Change]], places: Sequence[_Place], each: int = 10, page: int = 1000
) -> tuple[set[tuple[str, str]], list[tuple[str, str]]]:
    """Paths that a sample of changes has, and the questions, by branch and the path behind which they ask."""
    asked: list[tuple[str, str]] = []

    def changes(_repository: str, branch: str, _amount: int, after: str) -> list[Change]:
        asked.append((branch, after))
        if (branch, after) not in answers:
            raise NotFoundError("branch")
        return answers[branch, after]

    plan = SimpleNamespace(repository="lake")
    run: Any = SimpleNamespace(plan=plan, client=SimpleNamespace(changes=changes))
    branches: Any = [SimpleNamespace(id=name) for name in ("one", "two", "gone")]
    return set(_changed(run, branches, places, each, random.Random(1), page)), sorted(asked)


def paths(*names: str, removed: Sequence[str] = ()) -> list[Change]:
    return [Change(name, "removed" if name in removed else "added") for name in names]


def test_changes_are_looked_at_behind_the_first_page_where_that_is_full() -> None:
    """At the places of the head that lie there, and right behind the page."""
    answers = {
        ("one", ""): paths("a", "b", "c", removed=["b"]),
        ("one", "c"): paths("d", "e", removed=["e"]),
        ("one", "m"): paths("n"),
        ("two", ""): paths("x", "y", removed=["y"]),
    }
    places = [_Place("one", after, 1) for after in ("", "b", "c", "m")] + [_Place("two", "z", 1)]
    found, asked = changed(answers, places, page=3)
    assert asked == [("gone", ""), ("one", ""), ("one", "c"), ("one", "m"), ("two", "")]
    assert found == {("one", "a"), ("one", "c"), ("one", "d"), ("one", "n"), ("two", "x")}


def test_of_many_changes_some_are_chosen_and_none_that_was_removed() -> None:
    names = [f"{number:02d}" for number in range(40)]
    answers = {(branch, ""): paths(*names, removed=names[:30]) for branch in ("one", "two", "gone")}
    found, _ = changed(answers, [], each=8)
    assert Counter(branch for branch, _ in found) == {"one": 8, "two": 8, "gone": 8}
    assert {path for _, path in found} <= set(names[30:])


def test_an_address_is_a_canary_once_by_each_key_that_a_store_can_list() -> None:
    """A reading with bytes that are not UTF-8 names no object."""
    stats = [ObjectStats("a", f"mem://lake/{name}", "c", 1) for name in ("data/b", "data/caf%E9", "data/b")]
    found = [*canaries._canaries([("main", item) for item in stats], "mem://lake")]
    assert [canary.address for canary in found] == ["data/b", "data/caf%E9", "data/caf%25E9"]
