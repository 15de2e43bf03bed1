"""Canaries come from all over what branches show, and stop a run that would delete one."""

import random
import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.check_limits import canaries
from dredge.gc.check_limits.canaries import Sizes, between
from dredge.gc.steps import check_limits, list_committed, mark_uncommitted, slice_listing, subtract
from dredge.lakefs import ObjectStats
from tests.support.gc import World, make_world, stage_again


def skewed_world(count: int = 1000) -> World:
    """Most names share a long beginning; one lies far behind, so that a place between the ends tells little."""
    world = make_world()
    for number in range(count):
        world.upload(f"table/year=2026/month=01/part-{number:05d}", b"%d" % number)
    world.upload("zz", b"far away")
    return world


def tenths(paths: set[str], count: int = 1000) -> set[int]:
    return {int(path[-5:]) * 10 // count for path in paths if path.startswith("table")}


def test_canaries_of_many_changes_come_from_behind_the_first_page_too() -> None:
    world = skewed_world()
    world.lake.commit()
    for number in range(0, 1000, 2):
        world.upload(f"table/year=2026/month=01/part-{number:05d}", b"new %d" % number)
    served, ask = world.served(), world.client.objects

    def of_changes_only(repository: str, ref: str, after: str, amount: int) -> list[ObjectStats]:
        return ask(repository, ref, after, amount) if after.endswith("\U0010ffff") else []

    world.client.objects = of_changes_only  # type: ignore[method-assign,assignment]
    samples = canaries.sample(world.plan(), "check_limits", Sizes(page=100))
    assert len(tenths({sample.path for sample in samples})) >= 5
    assert all(served[sample.path] == sample.address for sample in samples)


def test_each_branch_shows_as_many_objects_as_configured_staged_ones_among_them() -> None:
    world = skewed_world(100)
    head = world.lake.commit().id
    names = ["main", "b0", "b1"]
    for name in names:
        if name != "main":
            world.lake.catalog.branches.create_branch("lake", name, "main")
        for number in range(50):
            world.upload(f"{name}/{number:02d}", f"{name} {number}".encode(), name)
    run = world.plan(safety={"canary_branches": 3, "canary_objects": 20})
    metarange = world.client.commit("lake", head).metarange_id
    asked: Counter[str] = Counter()
    world.client.before = lambda name, _: asked.update([name])
    found = canaries.sample(run, "check_limits", metaranges={head: metarange})
    assert asked == {"branches": 1, "changes": 3, "objects": 3 * 5}
    staged = Counter(canary.branch for canary in found if canary.path.startswith(f"{canary.branch}/"))
    assert len(found) >= 20
    assert all(staged[name] >= 4 for name in names)


def test_branches_that_go_meanwhile_give_no_canaries() -> None:
    world = make_world()
    kept = world.commit("a", b"1")
    for number in range(5):
        world.lake.catalog.branches.create_branch("lake", f"b{number}", "main")

    def go(name: str, arguments: tuple[object, ...]) -> None:
        if name in ("objects", "changes") and str(arguments[1]).startswith("b"):
            raise NotFoundError("branch not found")

    context = world.plan()
    world.client.before = go
    assert {sample.address for sample in canaries.sample(context, "check_limits")} == {kept}


def test_a_run_that_would_delete_canaries_names_ten_of_them() -> None:
    world = make_world()
    for number in range(200):
        world.upload(f"{number:03d}", b"%d" % number)
    world.lake.commit()
    orphans = [world.orphan(f"data/slice/orphan{number:02d}") for number in range(30)]
    world.age(days=2)

    context = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(context, world.runner)
    # Before the guards ask what branches show; a wrong mark would look the same.
    for number, orphan in enumerate(orphans):
        stage_again(world, orphan, f"{number * 6:03d}-again")
    with pytest.raises(RefusedError, match="canaries") as caught:
        world.run(context)
    assert len(set(re.findall(r"data/slice/orphan\d\d", str(caught.value)))) == 10
    assert set(orphans) <= world.data()


def test_in_one_process_canaries_are_those_from_after_the_commits_were_read() -> None:
    world = make_world()
    world.commit("a", b"lives")
    orphan = world.orphan("data/slice/orphan")
    world.age(days=2)
    run = world.plan()
    with run.going_on():
        for step in (slice_listing, mark_uncommitted, list_committed):
            step(run, world.runner)
        stage_again(world, orphan, "later")  # nobody samples it any more
        sampled = run.begun("check_limits")
        assert sampled is not None
        assert {canary.path for canary in sampled.result()} == {"a"}
        run.begin("check_limits", lambda: [canaries.Canary(orphan, "main", "b")])
        subtract(run, world.runner)
        with pytest.raises(RefusedError) as caught:
            check_limits(run, world.runner)
    assert orphan in str(caught.value)


# Where canaries are looked for: in some branches, the default one among them, as many looks as there may
# be.


def test_an_address_is_a_canary_once_by_each_key_that_a_store_can_list() -> None:
    """A reading with bytes that are not UTF-8 names no object."""
    stats = [ObjectStats("a", f"mem://lake/{name}", "c", 1) for name in ("data/b", "data/caf%E9", "data/b")]
    found = [*canaries._canaries([("main", item) for item in stats], "mem://lake")]
    assert [canary.address for canary in found] == ["data/b", "data/caf%E9", "data/caf%25E9"]


# Guesses lie between the keys, look like them, and are spread.


KEYS = st.binary(max_size=12)


@given(KEYS, KEYS, st.integers(0, 9))
def test_a_guess_lies_between(first: bytes, last: bytes, seed: int) -> None:
    low, high = sorted((first, last))
    assert low <= between(first, last, random.Random(seed)) <= high


DIGITS, LOWER, HEX = string.digits, string.ascii_lowercase, "0123456789abcdef"
