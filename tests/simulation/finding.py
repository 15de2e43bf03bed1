"""Finds known bugs: plays the history of each, and hunts if it does not show the bug any more.

Each broken product has a separate process.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext

from tests.mutations.breakages import Breakage
from tests.mutations.breaking import break_in_place, break_product
from tests.simulation.bug import KnownBug
from tests.simulation.known_bugs import BUGS, breakages_of

ALL = "all"
HASH_SEED = "PYTHONHASHSEED"
"""Fixed in processes that play histories: the order of sets depends on it."""
_AT_ONCE = 2
_IMPORTED = ["tests.simulation.imported"]
"""Slow imports without threads: a thread's locks would be inherited as well."""
_NOT_IN_PLACE = "not in place"


def chosen(text: str, world_name: str) -> list[KnownBug]:
    """The bugs of a world, or of all, with one of some texts in their names, separated by `|`."""
    return [
        bug
        for bug in BUGS
        if world_name in (ALL, bug.world) and any(part in bug.name for part in text.split("|"))
    ]


def find_all(bugs: Sequence[KnownBug], cpu_seconds: float) -> int:
    """Find some bugs; returns 1 when the list has no history for one of them."""
    wrong = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for bug, (rule, seed, words) in zip(
            bugs, pool.map(partial(find, cpu_seconds=cpu_seconds), bugs), strict=True
        ):
            if (rule, seed) == (bug.rule, bug.seed):
                print(f"{bug.world}, {bug.name}: {rule}, seed {seed}", flush=True)
                continue
            wrong += 1
            found = f"now {rule}, seed {seed}" if rule else "NOT FOUND"
            print(f"{bug.world}, {bug.name}: {found}; {words}", flush=True)
    print(f"{len(bugs)} bugs, {len(bugs) - wrong} found where the list says")
    return 1 if wrong else 0


def find(bug: KnownBug, cpu_seconds: float) -> tuple[str, int, str]:
    """Return the rule broken by a bug and the seed of the history; ("", …) if none was found."""
    seeds, began, words = [bug.seed] if bug.rule else [], time.monotonic(), "no history was played"
    first = 0
    while seeds or time.monotonic() - began < cpu_seconds * _AT_ONCE:
        rule, seed, words = _in_a_process(
            partial(_hunt, bug, seeds or None, first, cpu_seconds), breakages_of(bug)
        )
        if rule and not _in_a_process(partial(_hunt, bug, [seed], 0, 0.0), [])[0]:
            return rule, seed, words
        if not seeds and not rule:
            break
        first = 0 if seeds else seed + 1
        seeds = []
    return "", 0, words


def _hunt(bug: KnownBug, seeds: Sequence[int] | None, first: int, cpu_seconds: float) -> tuple[str, int, str]:
    from tests.simulation.history import play
    from tests.simulation.worlds import WORLDS

    world, began, seed, words = WORLDS[bug.world](focus=bug.focus), time.process_time(), first, "no error"
    waiting = list(seeds or ())
    while waiting or (seeds is None and time.process_time() - began < cpu_seconds):
        seed = waiting.pop(0) if waiting else seed
        outcome = play(world, seed)
        if outcome.violated:
            return outcome.rule, seed, str(outcome.error)[:300]
        if outcome.error is not None:
            words = repr(outcome.error)[:300]
        seed += 1
    return "", seed, words


type _Found = tuple[str, int, str]


@cache
def _context() -> ForkServerContext:
    os.environ[HASH_SEED] = "0"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def _in_a_process(do: Callable[[], _Found], breakages: Sequence[Breakage]) -> _Found:
    contexts: list[ForkServerContext | SpawnContext] = [_context(), multiprocessing.get_context("spawn")]
    for context in contexts:
        ours, theirs = context.Pipe(duplex=False)
        quick = context is contexts[0]
        process = context.Process(target=_do_broken, args=(theirs, do, list(breakages), quick))
        process.start()
        theirs.close()
        try:
            found: _Found = ours.recv()
        except EOFError:
            found = "", 0, "the process died"
        process.join()
        if found[2] != _NOT_IN_PLACE:
            return found
    return found


def _do_broken(answer: Connection, do: Callable[[], _Found], breakages: list[Breakage], quick: bool) -> None:
    if not quick:
        break_product(breakages)
    elif not break_in_place(breakages):
        answer.send(("", 0, _NOT_IN_PLACE))
        return
    from tests.simulation.machine import import_product

    import_product()
    answer.send(do())
