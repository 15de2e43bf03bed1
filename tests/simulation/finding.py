"""Looks after how many histories a bug is found.

Each broken product has a process of its own, forked from one that has imported everything but the product.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.known_bugs import BUGS, KnownBug

HEAVY = ("pyarrow.parquet", "pyarrow.compute", "numba", "numpy", "pandas", "jinja2", "starlette.applications")
"""What all broken products have in common, imported once."""


def find_all(bugs: Sequence[KnownBug], hunt: Callable[[KnownBug], dict[str, Any]]) -> int:
    """Look for some bugs, one after the other; gives 1 when one that can be found is not."""
    for name in HEAVY:
        importlib.import_module(name)
    assert not any(name.startswith("dredge.gc") for name in sys.modules), "too late: it is imported already"
    missed = []
    for number, bug in enumerate(bugs, 1):
        found = _in_a_fork(hunt, bug)
        if not found["rule"] and not bug.why_not:
            missed.append(bug.name)
        print(f"{number:3d}/{len(bugs)}  {_line(bug, found)}", flush=True)
    print(
        f"{len(bugs) - len(missed)} of {len(bugs)} were found, or cannot be; missed: {', '.join(missed) or 'none'}"
    )
    return 1 if missed else 0


def find_one(world_name: str, seed: int, cpu_seconds: float) -> dict[str, Any]:
    """Hunt in this process until a rule is broken; gives the rule ("" for none), its seed, and how long it took.

    Args:
        world_name: of the world.
        seed: the first one.
        cpu_seconds: how long to look, in seconds of one core.
    """
    from tests.simulation.history import play
    from tests.simulation.worlds import WORLDS

    world = WORLDS[world_name]()
    began, first = time.process_time(), seed
    found = {"rule": "", "words": ""}
    while not found["rule"] and time.process_time() - began < cpu_seconds:
        outcome = play(world, seed)
        found = {"rule": outcome.rule, "words": str(outcome.error or "")[:300]}
        seed += 1
    return found | {"seed": seed - 1, "histories": seed - first, "seconds": time.process_time() - began}


def chosen(text: str) -> list[KnownBug]:
    """The bugs whose names have a text."""
    return [bug for bug in BUGS if text in bug.name]


def _in_a_fork(hunt: Callable[[KnownBug], dict[str, Any]], bug: KnownBug) -> dict[str, Any]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def child() -> None:
        try:
            theirs.send(json.dumps(hunt(bug)))
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
            theirs.send(
                json.dumps({"rule": "broken", "seed": 0, "histories": 0, "seconds": 0.0, "words": words})
            )

    process = context.Process(target=child)
    process.start()
    theirs.close()
    try:
        found: dict[str, Any] = json.loads(ours.recv())
    except EOFError:
        found = {"rule": "crashed", "seed": 0, "histories": 0, "seconds": 0.0, "words": ""}
    process.join()
    return found


def _line(bug: KnownBug, found: dict[str, Any]) -> str:
    histories, seconds = f"{found['histories']:,} histories", f"{found['seconds']:.0f} s"
    if found["rule"]:
        return f"{bug.name}: {found['rule']} after {histories}, {seconds}, seed {found['seed']}"
    return f"{bug.name}: NOT FOUND in {histories}, {seconds}{bug.why_not and f' ({bug.why_not})'}"
