"""Looks after how many histories a bug is found.

Each broken product has a process of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from tests.simulation.broken import break_product
from tests.simulation.known_bugs import BUGS, BY_NAME, KnownBug

UNBROKEN = ("lakefs_sdk.api_client", "starlette.datastructures")
"""What takes long to import, holds no known bug, and starts no thread: a thread's locks would be inherited as well."""


def find_all(bugs: Sequence[KnownBug], world_name: str, seed: int, cpu_seconds: float) -> int:
    """Look for some bugs, one after the other; gives 1 when one that can be found is not. Arguments: see `find_one`."""
    missed = []
    for number, bug in enumerate(bugs, 1):
        found = _in_a_process(bug, world_name, seed, cpu_seconds)
        if not found["rule"] and not bug.why_not:
            missed.append(bug.name)
        print(f"{number:3d}/{len(bugs)}  {_line(bug, found)}", flush=True)
    print(
        f"{len(bugs) - len(missed)} of {len(bugs)} were found, or cannot be; missed: {', '.join(missed) or 'none'}"
    )
    return 1 if missed else 0


def find_one(world_name: str, seed: int, cpu_seconds: float) -> dict[str, Any]:
    """Hunt in this process until a rule is broken; gives the rule ("" for none), its seed, and how long it took.

    A history that ends with any other error finds nothing, and is counted as `errors`.

    Args:
        world_name: of the world.
        seed: the first one.
        cpu_seconds: how long to look, in seconds of one core.
    """
    from tests.simulation.history import play
    from tests.simulation.worlds import WORLDS

    world = WORLDS[world_name]()
    began, first = time.process_time(), seed
    found: dict[str, Any] = {"rule": "", "words": ""}
    errors = 0
    while not found["rule"] and time.process_time() - began < cpu_seconds:
        outcome = play(world, seed)
        seed += 1
        if outcome.violated:
            found = {"rule": outcome.rule, "words": str(outcome.error)[:300]}
        elif outcome.error is not None:
            errors += 1
            found["words"] = repr(outcome.error)[:300]
    spent = {"seed": seed - 1, "histories": seed - first, "seconds": time.process_time() - began}
    return found | spent | {"errors": errors}


def chosen(text: str, world_name: str) -> list[KnownBug]:
    """The bugs of a world whose names have a text."""
    return [bug for bug in BUGS if text in bug.name and bug.world == world_name]


def _in_a_process(bug: KnownBug, world_name: str, seed: int, cpu_seconds: float) -> dict[str, Any]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(UNBROKEN))
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_hunt_broken, args=(theirs, bug.name, world_name, seed, cpu_seconds))
    process.start()
    theirs.close()
    try:
        found: dict[str, Any] = json.loads(ours.recv())
    except EOFError:
        words = "the process died"
        found = {"rule": "", "seed": 0, "histories": 0, "seconds": 0.0, "words": words, "errors": 1}
    process.join()
    return found


def _hunt_broken(answer: Connection, name: str, world_name: str, seed: int, cpu_seconds: float) -> None:
    break_product(BY_NAME[world_name, name].changes)
    answer.send(json.dumps(find_one(world_name, seed, cpu_seconds)))


def _line(bug: KnownBug, found: dict[str, Any]) -> str:
    histories, seconds = f"{found['histories']:,} histories", f"{found['seconds']:.0f} s"
    if found["rule"]:
        return f"{bug.name}: {found['rule']} after {histories}, {seconds}, seed {found['seed']}"
    errors = f", {found['errors']} ended with an error such as {found['words']}" if found["errors"] else ""
    return f"{bug.name}: NOT FOUND in {histories}, {seconds}{errors}{bug.why_not and f' ({bug.why_not})'}"
