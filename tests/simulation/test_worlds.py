"""A fixed set of seeds of the smaller worlds, and tests of their breakable rules."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dredge.kv.rows import Row
from tests.simulation.clock import HOUR
from tests.simulation.history import Move, Simulation, play
from tests.simulation.icechunk.writers import ROOT
from tests.simulation.noise import chance_of
from tests.simulation.trash.rows import rows_of
from tests.simulation.world_icechunk import IcechunkScene, IcechunkWorld
from tests.simulation.world_trash import TrashScene, TrashWorld
from tests.simulation.worlds import WORLDS


@pytest.mark.parametrize(("world", "seeds"), [("decision", 50), ("trash", 10), ("icechunk", 5)])
def test_no_history_of_the_smaller_worlds_breaks_a_rule(world: str, seeds: int) -> None:
    for seed in range(seeds):
        outcome = play(WORLDS[world](), seed)
        assert outcome.error is None, outcome.tale()


@pytest.mark.parametrize("world", ["decision", "trash", "icechunk"])
def test_a_seed_gives_the_same_history_again(world: str) -> None:
    assert play(WORLDS[world](), 3).digest == play(WORLDS[world](), 3).digest
    assert WORLDS[world]().draw(chance_of(3)) == WORLDS[world]().draw(chance_of(3))


@dataclass
class NaughtyTrash(TrashWorld):
    """Deletes a chosen row in the end, as if it were trash."""

    choose: Callable[[Row], bool] = lambda _row: False

    def build(self, simulation: Simulation) -> TrashScene:
        scene = super().build(simulation)

        def settle() -> None:
            rows = [row for row in rows_of(scene.kv) if self.choose(row)]
            scene.oracle.undone |= set(rows)
            scene.cleaner.rows.delete_rows(rows[:1])

        scene.settle = settle  # type: ignore[method-assign]
        return scene


@pytest.mark.parametrize(
    ("moves", "choose", "rule"),
    [
        ([("create", ("lake", False))], lambda row: row.key.startswith(b"branches/"), "live"),
        (
            [("create", ("lake", False)), ("upload", ("lake", "main", "x"))],
            lambda row: b":" in row.partition,
            "live",
        ),
        ([("own branch", ("lake", "main"))], lambda row: row.partition == b"mc-ownership", "live"),
        ([("strange row", ())], lambda row: row.partition == b"strange", "live"),
    ],
)
def test_a_cleaner_that_deletes_what_is_live_is_found_out(
    moves: list[tuple[str, tuple[Any, ...]]], choose: Callable[[Row], bool], rule: str
) -> None:
    world = NaughtyTrash(choose=choose)
    world.draw = lambda _chance: [Move(60.0 * n, *move) for n, move in enumerate(moves)]  # type: ignore[method-assign]
    outcome = play(world, 0)
    assert outcome.rule == rule, outcome.tale()


@dataclass
class NaughtyIcechunk(IcechunkWorld):
    """Deletes the objects of a folder in the end, or only its chunks with virtual ones."""

    folder: str = ""
    wait_hours: float = 30.0
    only_virtual: bool = False

    def build(self, simulation: Simulation) -> IcechunkScene:
        scene = super().build(simulation)
        bucket = simulation.stores.bucket("bucket")

        def settle() -> None:
            simulation.scheduler.wait(self.wait_hours * HOUR)
            virtual = {f"{ROOT}chunks/{each}" for ids in scene.writers.virtual.values() for each in ids}
            for key in [key for key in bucket.keys if key.startswith(ROOT + self.folder)]:
                if key in virtual or not self.only_virtual:
                    bucket.remove(key)

        scene.settle = settle  # type: ignore[method-assign]
        return scene


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("folder", "hours", "rule"),
    [("chunks/", 30.0, "live"), ("manifests/", 30.0, "live"), ("chunks/", 3.0, "age")],
)
def test_a_collection_that_deletes_what_is_live_is_found_out(
    folder: str, hours: float, rule: str, seed: int
) -> None:
    world = NaughtyIcechunk(folder=folder, wait_hours=hours)
    world.draw = lambda _chance: [Move(60.0, "commit", ("main", 2, 0.0, False))]  # type: ignore[method-assign]
    outcome = play(world, seed)
    assert outcome.rule == rule, outcome.tale()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_collection_that_deletes_what_a_virtual_chunk_lies_in_is_found_out(seed: int) -> None:
    world = NaughtyIcechunk(folder="chunks/", only_virtual=True)
    moves = [
        ("create branch", ("a", 0)),
        ("commit", ("a", 2, 0.0, True)),
        *(("commit virtually", ("main", 1, number, 0.0)) for number in (0, 1)),
        ("delete branch", ("a",)),
        ("library expires", (0.0, True)),
    ]
    world.draw = lambda _chance: [Move(60.0 * n, *move) for n, move in enumerate(moves)]  # type: ignore[method-assign]
    outcome = play(world, seed)
    assert outcome.rule == "live", outcome.tale()
