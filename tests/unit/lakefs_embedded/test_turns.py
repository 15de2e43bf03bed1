"""The scheduler itself: it runs what it says, all of it, and nothing twice."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from dredge.kv import Store, open_store
from tests.support.turns import Actor, Scene, explore, run_turns

P = b"p"


def writes(*keys: str, partition: bytes = P) -> Actor:
    def act(kv: Store) -> None:
        for key in keys:
            kv.set(partition, key.encode(), b"")

    return act


def increment(kv: Store) -> None:
    kv.set(P, b"n", b"%d" % (int(kv.get(P, b"n")) + 1))


def scene_of(actors: Mapping[str, Actor], **rows: bytes) -> Scene:
    store = open_store("memory://")
    for key, value in rows.items():
        store.set(P, key.encode(), value)
    return Scene(store, actors, lambda results: None)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 3), (4, 4)])
def test_every_order_of_operations_on_one_key_is_run_once(first: int, second: int) -> None:
    seen = set()

    def scene() -> Scene:
        return scene_of({"a": writes(*"x" * first), "b": writes(*"x" * second)})

    for reduce in (True, False):
        explored = explore(scene, reduce=reduce)
        assert explored.schedules == math.comb(first + second, first)
        assert explored.longest == first + second
        seen.add(explored.schedules)
    assert len(seen) == 1


def test_reducing_leaves_out_no_end_that_can_be_seen() -> None:
    """Two actors that read, scan and write; the ends of all orders are the ends of the reduced ones."""

    def reader(kv: Store) -> object:
        first = kv.get(P, b"n")
        kv.set(P, b"m", first)
        return first, [entry.key for entry in kv.scan(P, b"k")]

    def writer(kv: Store) -> None:
        kv.set(P, b"n", b"1")
        kv.set(P, b"a", b"")
        kv.delete(P, b"m")
        kv.set(P, b"z", b"")

    def ends(reduce: bool) -> set[object]:
        found = set()

        def scene() -> Scene:
            made = scene_of({"a": reader, "b": writer}, n=b"0")
            return Scene(
                made.store,
                made.actors,
                lambda results: found.add((repr(results["a"]), repr(list(made.store.scan(P))))),
            )

        explore(scene, reduce=reduce, crashes=1)
        return found

    assert ends(True) == ends(False)
    assert len(ends(True)) > 6


def test_a_lost_update_is_found_and_its_schedule_repeats_it() -> None:
    def scene() -> Scene:
        made = scene_of({"a": increment, "b": increment}, n=b"0")

        def check(_: Mapping[str, object]) -> None:
            assert made.store.get(P, b"n") == b"2"

        return Scene(made.store, made.actors, check)

    with pytest.raises(AssertionError, match=r"schedule \['a', 'b', 'a', 'b'\]"):
        explore(scene)
    made = scene()
    run_turns(made.store, made.actors, ["a", "b", "a", "b"])
    assert made.store.get(P, b"n") == b"1"


def test_a_crash_is_tried_at_every_operation_and_ends_the_actor() -> None:
    def act(kv: Store) -> None:
        try:
            writes("1", "2", "3")(kv)
        finally:
            kv.set(P, b"cleanup", b"")

    left = []

    def scene() -> Scene:
        made = scene_of({"a": act})
        return Scene(
            made.store,
            made.actors,
            lambda results: left.append([e.key.decode() for e in made.store.scan(P)]),
        )

    explored = explore(scene, crashes=1)
    assert sorted(left) == [[], ["1"], ["1", "2"], ["1", "2", "3"], ["1", "2", "3", "cleanup"]]
    assert explored.outcomes == {("ok",): 1, ("CrashError",): 4}
