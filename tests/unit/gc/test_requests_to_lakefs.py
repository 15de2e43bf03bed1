"""The requests of an optimized run to lakeFS: they do not grow with the branches where the key-value store is read."""

from collections import Counter
from typing import Any

import pytest

from tests.support.gc import World, make_world
from tests.support.kv_views import store_of

SAMPLED = {"canary_branches": 1}
"""Canaries are a sample of some branches, however many there are: here only of the default branch."""


def requests_of_optimized_run(
    branches: int, changed: int, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> Counter[str]:
    world = make_world(safety=SAMPLED, **settings)
    store_of(world, monkeypatch)
    world.rules(30)
    world.commit("keep")
    for number in range(branches):
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{number:03d}", "main")
    world.collect_after(days=2)
    for number in range(changed):
        world.upload("new", f"new {number}".encode(), f"b{number:03d}")
    world.age(hours=1)
    return requests_of(world)


def requests_of(world: World) -> Counter[str]:
    asked: Counter[str] = Counter()
    run = world.plan(mode="optimized")
    assert run.plan.mode == "optimized"
    world.client.before = lambda name, _: asked.update([name])
    world.run(run)
    return asked


@pytest.mark.parametrize("changed", [2, 6])
def test_with_the_key_value_store_more_branches_take_no_more_requests(
    changed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = requests_of_optimized_run(8, 2, monkeypatch, read_kv=True)
    assert few["branches"]
    assert requests_of_optimized_run(40, changed, monkeypatch, read_kv=True) == few


def test_with_nothing_to_delete_no_branch_is_asked_and_the_store_is_proved_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = requests_of_optimized_run(8, 2, monkeypatch, read_kv=True)
    assert not {"objects", "objects_page", "changes", "stat", "commit", "log", "tags"} & asked.keys()
    assert (asked["branches"], asked["usage"]) == (2, 5)


def test_without_it_a_branch_takes_two_requests_and_a_changed_one_four(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its list of changes, to the end, a listing behind the last change, which reports errors that the list hides, and
    the address of its last change."""
    few = requests_of_optimized_run(10, 3, monkeypatch)
    more = requests_of_optimized_run(30, 3, monkeypatch)
    changed = requests_of_optimized_run(30, 8, monkeypatch)
    assert (more - few, few - more) == (Counter(changes=20, objects=20), Counter())
    assert (changed - more, more - changed) == (Counter(changes=5, stat=5), Counter())
