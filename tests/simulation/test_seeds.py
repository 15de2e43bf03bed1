"""A fixed set of seeds, and promises of the simulator itself."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations.breaking import broken_tree_of
from tests.simulation.finding import find
from tests.simulation.history import Simulation, play
from tests.simulation.known_bugs import BUGS, breakages_of
from tests.simulation.lakefs import route
from tests.simulation.scheduler import Killed, Process, Scheduler
from tests.simulation.shrink import reduce_list
from tests.simulation.threads import Event, Lock
from tests.simulation.weather import KINDS
from tests.simulation.worlds import WORLDS

ROOT = Path(__file__).resolve().parents[2]
SEEDS_OF_A_TEST, TESTS = 8, 3


@pytest.mark.parametrize("first", range(0, SEEDS_OF_A_TEST * TESTS, SEEDS_OF_A_TEST))
def test_no_history_of_a_collection_loses_an_object(first: int) -> None:
    for seed in range(first, first + SEEDS_OF_A_TEST):
        outcome = play(WORLDS["gc"](), seed)
        assert outcome.error is None, outcome.tale()


def test_a_seed_gives_the_same_history_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--world", "icechunk", "--seed", "2", "--one"]
    digests = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        digests.append(done.stdout.splitlines()[-1])
    assert digests[0].startswith("digest: ")
    assert digests[0] == digests[1]


def test_moves_of_a_seed_do_not_depend_on_what_happens() -> None:
    world = WORLDS["gc"]()
    assert world.draw(random.Random(7)) == world.draw(random.Random(7))
    whole, nothing = play(world, 3), play(world, 3, only=[])
    assert nothing.moves == []
    assert nothing.drawn == whole.drawn
    assert nothing.command().endswith("--only none")


def test_a_product_that_deletes_young_objects_is_found_out() -> None:
    (bug,) = (each for each in BUGS if each.name == "the cutoff is now")
    assert find(bug, 0.0)[:2] == ("young", bug.seed)


def test_every_known_bug_can_be_put_into_the_code() -> None:
    assert len({(bug.world, bug.name) for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        breakages = breakages_of(bug)
        for module in {each.module for each in breakages}:
            compile(broken_tree_of(module, breakages), module, "exec")


def test_a_move_is_made_when_a_call_is_about_to_be_done() -> None:
    simulation = Simulation.make(0)
    scheduler, doors, seen = simulation.scheduler, simulation.doors, list[str]()

    def calls() -> None:
        for number in range(3):
            doors.call("store", "get", lambda number=number: seen.append(f"call {number}"), {})  # type: ignore[misc]

    def waits() -> None:
        seen.append(f"woken: {doors.await_call('step', 'get', 2, 100) is not None}")

    scheduler.spawn("waiter", waits, Process("waiter", scheduler))
    scheduler.spawn("caller", calls, Process("caller", scheduler, role="step"))
    scheduler.run()
    assert seen == ["call 0", "woken: True", "call 1", "call 2"]


def test_a_failing_list_is_made_as_short_as_it_can_be() -> None:
    assert reduce_list(list(range(40)), lambda items: {3, 17, 31} <= set(items)) == [3, 17, 31]


def test_actors_run_in_the_order_of_virtual_time() -> None:
    scheduler = Scheduler()
    process, seen = Process("p", scheduler), list[tuple[str, float]]()

    def actor(name: str, seconds: float) -> None:
        for _ in range(2):
            scheduler.wait(seconds)
            seen.append((name, scheduler.now))

    scheduler.spawn("slow", lambda: actor("slow", 3), process)
    scheduler.spawn("fast", lambda: actor("fast", 2), process)
    scheduler.run()
    assert seen == [("fast", 2), ("slow", 3), ("fast", 4), ("slow", 6)]


def test_a_killed_process_does_nothing_more_not_even_while_it_unwinds() -> None:
    scheduler = Scheduler()
    victim, killer, done = Process("victim", scheduler), Process("killer", scheduler), list[str]()

    def unlucky() -> None:
        try:
            scheduler.wait(10)
            done.append("work")
        finally:
            scheduler.wait(1)
            done.append("clean up")

    actor = scheduler.spawn("a", unlucky, victim)
    scheduler.spawn("k", victim.kill, killer, at=5)
    scheduler.run()
    assert done == []
    assert isinstance(actor.error, Killed)


def test_locks_and_events_are_waited_for_in_virtual_time() -> None:
    scheduler = Scheduler()
    process, lock, event, seen = Process("p", scheduler), Lock(scheduler), Event(scheduler), list[float]()

    def holder() -> None:
        with lock:
            scheduler.wait(5)
        event.set()

    def waiter() -> None:
        scheduler.wait(1)
        with lock:
            seen.append(scheduler.now)
        assert event.wait(100)
        seen.append(scheduler.now)

    scheduler.spawn("holder", holder, process)
    actor = scheduler.spawn("waiter", waiter, process)
    scheduler.run()
    assert actor.ended
    assert seen == [5, 5]


def test_every_kind_of_weather_does_something_to_its_door() -> None:
    simulation = Simulation.make(0)
    for kind in KINDS:
        simulation.doors.weather.add(kind.name, 0, 10, 1.0)
        door = "kv" if kind.door == "any" else kind.door
        name = next(iter(sorted(kind.only)), "get")
        assert simulation.doors.weather.strikes(door, name, 5, 1, kind.role) == kind.name
        assert not simulation.doors.weather.strikes(door, name, 10, 1, kind.role)
        simulation.doors.weather.clear()


def test_the_clients_calls_are_those_of_the_embedded_server() -> None:
    operation, names = route("GET", "/repositories/{repository}/commits/{commit}")
    assert operation.name == "get_commit"
    assert set(names.values()) == {"repository", "commit"}
