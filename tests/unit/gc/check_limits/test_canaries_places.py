"""Where canaries are looked for: in some branches, the default one among them, as many looks as there may be."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dredge.gc.check_limits import canaries
from dredge.gc.check_limits.canaries import _choose
from dredge.lakefs import ObjectStats
from tests.support.gc import make_world


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


def test_an_address_is_a_canary_once_by_each_key_that_a_store_can_list() -> None:
    """A reading with bytes that are not UTF-8 names no object."""
    stats = [ObjectStats("a", f"mem://lake/{name}", "c", 1) for name in ("data/b", "data/caf%E9", "data/b")]
    found = [*canaries._canaries([("main", item) for item in stats], "mem://lake")]
    assert [canary.address for canary in found] == ["data/b", "data/caf%E9", "data/caf%25E9"]
