"""Any kind of move meets any step: without this, only the steps known to a scene's author."""

import random
from collections.abc import Callable, Collection

import pytest

from tests.simulation.displacing import displaced
from tests.simulation.gc import drawing as gc
from tests.simulation.history import OF_THE_BASE, Move, Simulation, World
from tests.simulation.icechunk import drawing as icechunk
from tests.simulation.machine import installed
from tests.simulation.trash import drawing as trash
from tests.simulation.world_gc import GcWorld
from tests.simulation.world_icechunk import IcechunkWorld
from tests.simulation.world_trash import TrashWorld


def verbs_of(world: World) -> set[str]:
    simulation = Simulation.make(0)
    with installed(simulation.scheduler, simulation.stores):
        return set(world.build(simulation).moves())


type Draw = Callable[[random.Random], list[Move]]


@pytest.mark.parametrize(
    ("world", "draw", "left_out"),
    [
        (GcWorld(), gc.draw_displaced, gc.NOT_BESIDE),
        (IcechunkWorld(), lambda chance: icechunk.draw_displaced(chance, 60.0), ("pace",)),
        (TrashWorld(), trash.draw_displaced, ("pace",)),
    ],
    ids=["gc", "icechunk", "trash"],
)
def test_each_kind_of_move_and_each_step_is_drawn(
    world: World, draw: Draw, left_out: Collection[str]
) -> None:
    verbs = verbs_of(world)
    assert not verbs & set(OF_THE_BASE)  # at a moment, the base's move would run instead
    drawn = [move for seed in range(400) for move in draw(random.Random(seed)) if move.verb == "when"]
    assert {move.args[3] for move in drawn} >= verbs - set(left_out)
    assert {move.args[0] for move in drawn} >= set(world.steps)


def test_a_move_keeps_its_arguments_at_another_moment_and_weather_meets_the_same_step() -> None:
    """A move at a call gets another call; moves of the base stay."""
    pool = [
        Move(5.0, "when", ("mark", "get", 3, "tag", "v1", 7)),
        Move(5.0, "each", ("mark", "get", 1, 9, "reset", "main")),
        Move(5.0, "when", ("mark", "get", 3, "faint", 9.0)),
        Move(-5.0, "upload", ("main", "a")),
    ]
    found = [
        move
        for seed in range(60)
        for move in displaced(random.Random(seed), pool, ("sweep",), ("put",), ("slow",), at=100.0)
    ]
    assert {(move.at, *move.args[:2]) for move in found} == {(99.0, "sweep", "put")}
    made = {move.args[3:] for move in found if move.args[3] not in OF_THE_BASE}
    assert made == {("tag", "v1", 7), ("reset", "main"), ("upload", "main", "a")}
    assert {move.args[3:5] for move in found if move.args[3] in OF_THE_BASE} == {("weather", "slow")}
