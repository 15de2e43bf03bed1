"""The scheduler itself: it runs what it says, all of it, and nothing twice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import pytest

from dredge.errors import UnavailableError
from dredge.kv import KeyNotFoundError, Store, open_store
from tests.support.turns import Actor, Scene, Stage, explore, run_turns

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


def test_a_schedule_is_followed_and_then_the_rest_in_name_order() -> None:
    store = open_store("memory://")
    _, taken = run_turns(store, {"a": writes("1", "2"), "b": writes("3", "4")}, ["b", "a", "b", "b"])
    assert taken == ["b", "a", "b", "a"]


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


def test_operations_that_cannot_notice_each_other_are_run_in_one_order() -> None:
    actors = {"a": writes("1", "2", "3"), "b": writes("4", "5"), "c": writes("1", partition=b"q")}
    assert explore(lambda: scene_of(actors)).schedules == 1
    assert explore(lambda: scene_of(actors), reduce=False).schedules == 60


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


def test_a_fault_fails_one_operation_done_or_undone() -> None:
    def patient(kv: Store) -> str:
        try:
            kv.set(P, b"k", b"")
        except UnavailableError:
            return "failed"
        return "done"

    ends = set()

    def scene() -> Scene:
        made = scene_of({"a": patient})

        def check(results: Mapping[str, object]) -> None:
            ends.add((results["a"], len(list(made.store.scan(P)))))

        return Scene(made.store, made.actors, check)

    explore(scene, faults="-?")
    assert ends == {("done", 1), ("failed", 0), ("failed", 1)}


def test_a_stage_shows_what_comes_next_and_takes_new_actors() -> None:
    stage = Stage(open_store("memory://"))
    stage.start("a", writes("1", "2"))
    stage.step("a")
    stage.start("b", writes("3"))
    assert {name: operation.key for name, operation in stage.pending().items()} == {"a": b"2", "b": b"3"}
    stage.step("b")
    assert stage.results == {"b": None}
    stage.start("b", lambda kv: kv.get(P, b"none"))
    stage.run()
    assert isinstance(stage.results["b"], KeyNotFoundError)
    assert stage.taken == ["a", "b", "a", "b"]


def test_crashes_of_two_actors_are_tried_together() -> None:
    actors = {"a": writes("x", "x"), "b": writes("x")}
    explored = explore(lambda: scene_of(actors), crashes=2, reduce=False)
    assert explored.outcomes.keys() == {
        ("ok", "ok"),
        ("CrashError", "ok"),
        ("ok", "CrashError"),
        ("CrashError", "CrashError"),
    }
    reduced = explore(lambda: scene_of(actors), crashes=2)
    assert reduced.outcomes.keys() == explored.outcomes.keys()
    assert all(few <= many for few, many in pairwise((reduced.schedules, explored.schedules)))
