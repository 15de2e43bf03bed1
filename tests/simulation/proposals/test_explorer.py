"""The explorer visits every order, returns the shortest failing one, and repeats it."""

from collections.abc import Hashable
from math import comb

from tests.simulation.proposals.explorer import Scene, Trouble, explore, follow
from tests.simulation.proposals.world import Flow, World, after, kv_get, kv_set, kv_set_if, read_clock, within


def count(key: str, *, careful: bool = False) -> Flow[str]:
    while True:
        old = yield kv_get(key)
        if not careful:
            yield kv_set(key, (old or 0) + 1)
            return "counted"
        if (yield kv_set_if(key, (old or 0) + 1, old)):
            return "counted"


def expect(number: int, key: str = "n") -> Scene:
    """A scene's last look: the counter has this value."""
    return Scene(
        World(),
        {},
        lambda world: (),
        at_rest=lambda world, ends: (
            [Trouble("loss", str(world.kv.get(key)))] if world.kv.get(key) != number else []
        ),
    )


def counters(careful: bool, **options: int) -> Scene:
    end = expect(2)
    actors = {"a": lambda: count("n", careful=careful), "b": lambda: count("n", careful=careful)}
    return Scene(World(), actors, end.always, at_rest=end.at_rest, **options)  # type: ignore[arg-type]


def test_every_order_of_two_actors_is_counted() -> None:
    actors = {"a": lambda: after(*[lambda: count("a")] * 3), "b": lambda: after(*[lambda: count("b")] * 2)}
    explored = explore(Scene(World(), actors, lambda world: ()))
    assert explored.schedules == comb(10, 4)
    assert explored.states == 7 * 5
    assert explored.found == {}


def test_a_lost_update_is_found_by_its_shortest_schedule_with_the_fewest_turns() -> None:
    found = explore(counters(careful=False)).found["loss"]
    assert found.moves in (["a", "b", "b", "a"], ["b", "a", "a", "b"])
    assert follow(counters(careful=False), found.moves) == [Trouble("loss", "1")]
    assert not follow(counters(careful=False), ["a", "a", "b", "b"])


def test_a_dead_actor_is_found_and_only_as_many_die_as_may() -> None:
    found = explore(counters(careful=True, crashes=1)).found["loss"]
    assert sum(move.endswith("!") for move in found.moves) == 1
    assert (
        explore(counters(careful=True, crashes=1)).schedules
        < explore(counters(careful=True, crashes=2)).schedules
    )


def test_time_does_not_pass_a_request_by() -> None:
    def request() -> Flow[str]:
        by = (yield read_clock()) + 1
        yield from within(count("n"), by)
        return str((yield read_clock()))

    ends = explore(Scene(World(), {"a": request}, lambda world: (), hours=3)).ends
    assert {end for (end,) in ends} == {"a: 0", "a: 1", "a: 2", "a: 3"}

    def late() -> Flow[str]:
        by = (yield read_clock()) + 1
        yield from within(count("n"), by)
        return "done"

    seen: list[tuple[int, Hashable]] = []

    def look(world: World) -> list[Trouble]:
        seen.append((world.now, world.kv.get("n")))
        return []

    explore(Scene(World(), {"a": late}, look, hours=3))
    assert max(now for now, value in seen if value is None) == 3, "before the request begins, time passes"
