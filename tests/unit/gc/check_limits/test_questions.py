"""What is not asked about is cleared: every entry of a chosen size is in exactly one question to each branch."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from dredge.gc.check_limits.heads import Head, weigh
from dredge.gc.check_limits.places import Places
from dredge.gc.check_limits.questions import PAGE, PAGE_COST, BranchQuestions, choose, plan_questions
from dredge.sets.hashes import NONE


def planned(*ranks: int, most: float = float("inf")) -> list[tuple[int, int, bool]] | None:
    found = plan_questions(np.array(ranks, np.int64), most)
    return (
        None if found is None else [(question.first, question.stop, question.is_page) for question in found]
    )


def test_a_page_is_asked_for_where_it_answers_for_as_many_paths_as_it_costs() -> None:
    near = range(5, 5 + PAGE_COST - 1)
    singly = [(number, number + 1, False) for number in range(PAGE_COST)]
    assert planned(*near) == singly[:-1]
    assert planned(*near, 4 + PAGE) == [(0, PAGE_COST, True)]
    assert planned(*near, 5 + PAGE) == singly, "that path is on the next page"
    assert planned() == []


def test_pages_and_single_paths_follow_each_other() -> None:
    ranks = [1, *range(5000, 5020), 9000]
    assert planned(*ranks) == [(0, 1, False), (1, 21, True), (21, 22, False)]


@pytest.mark.parametrize(("ranks", "cost"), [([1, 5000, 9000], 3), ([*range(20)], 10), ([], 0)])
def test_questions_that_cost_more_than_may_be_spent_are_none(ranks: list[int], cost: int) -> None:
    assert planned(*ranks, most=cost) == planned(*ranks)
    if cost:
        assert planned(*ranks, most=cost - 1) is None


def made_places(chance: random.Random, sizes: list[int]) -> Places:
    """Three ranges with entries of some sizes, and of others that nobody wants."""
    ranges, ranks, of = {}, list[int](), list[int]()
    for name in "abc":
        start, count = len(ranks), chance.randrange(1, 30)
        ranks += sorted(chance.sample(range(3000), count))
        of += chance.choices([*sizes, 999_999], k=count)
        ranges[name] = range(start, len(ranks))
    paths = pa.array([b"%05d" % number for number in range(len(ranks))], pa.large_binary())
    return Places(ranges, np.array(ranks, np.int64), paths, np.array(of, np.uint64), NONE)


def cost_of(plan: list[BranchQuestions]) -> int:
    return sum(question.cost for group in plan for question in group.questions for _ in group.branches)


HEADS = [
    Head(["main", "dev", "other"], [("a", 0), ("c", 3000)]),
    Head(["old"], [("b", 70)]),
    Head(["next", "last"], [("a", 0), ("b", 5000), ("c", 9000)]),
]


def asked(plan: list[BranchQuestions]) -> dict[str, list[tuple[int, int]]]:
    """Row and rank of each entry in a question, by branch."""
    found: dict[str, list[tuple[int, int]]] = {}
    for group in plan:
        places = [
            (int(group.rows[at]), int(group.ranks[at]))
            for question in group.questions
            for at in range(question.first, question.stop)
        ]
        found.update(dict.fromkeys(group.branches, places))
    return found


def wanted(places: Places, sizes: set[int]) -> dict[str, list[tuple[int, int]]]:
    found = {
        branch: [
            (row, int(places.ranks[row]) + before)
            for name, before in head.ranges
            for row in places.ranges[name]
            if int(places.sizes[row]) in sizes
        ]
        for head in HEADS
        for branch in head.branches
    }
    return {branch: rows for branch, rows in found.items() if rows}


@pytest.mark.parametrize("seed", range(8))
def test_as_many_sizes_as_may_be_asked_about_are_and_every_entry_of_each(seed: int) -> None:
    chance = random.Random(seed)
    sizes = chance.sample(range(1, 1000), 6)
    places, order = made_places(chance, sizes), np.array(sizes, np.uint64)
    prices = [cost_of(choose(places, HEADS, order[:count], 10**9)[1]) for count in range(len(sizes) + 1)]
    assert prices == sorted(prices)
    for most in sorted({price + more for price in prices for more in (-1, 0, 1) if price + more >= 0}):
        chosen, plan = choose(places, HEADS, order, most)
        assert len(chosen) == max(count for count, price in enumerate(prices) if price <= most)
        assert chosen.tolist() == sizes[: len(chosen)]
        assert asked(plan) == wanted(places, set(sizes[: len(chosen)]))
        assert cost_of(plan) <= most


def test_nothing_is_asked_without_sizes_or_without_entries() -> None:
    places = made_places(random.Random(1), [5])
    none = Places({}, np.array([], np.int64), places.paths[:0], np.array([], np.uint64), NONE)
    assert choose(places, HEADS, np.array([], np.uint64), 100)[1] == []
    chosen, plan = choose(none, [], np.array([5, 6], np.uint64), 100)
    assert (chosen.tolist(), plan) == ([5, 6], [])


def test_a_size_that_lies_beyond_all_others_is_none_of_them() -> None:
    """The search for its place ends behind the last one."""
    places = made_places(random.Random(2), [7])
    _, plan = choose(places, HEADS, np.array([7, 3], np.uint64), 10**9)
    assert asked(plan) == wanted(places, {7, 3})


def test_a_size_weighs_as_many_paths_as_branches_could_serve_it_by() -> None:
    sizes = [3, 7, 20]
    places = made_places(random.Random(3), sizes)
    inner = Places(places.ranges, places.ranks, places.paths, np.minimum(places.sizes, np.uint64(20)), NONE)
    found = weigh(np.array(sizes, np.uint64), inner, HEADS)
    assert found.tolist() == [sum(map(len, wanted(inner, {size}).values())) for size in sizes]
