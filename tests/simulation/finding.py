"""Looks after how many histories a bug is found.

Each broken product has a process of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.simulation.broken import break_product
from tests.simulation.known_bugs import BUGS, BY_NAME, KnownBug
from tests.simulation.results import Look, Results, source_of_tree

UNBROKEN = ("lakefs_sdk.api_client", "starlette.datastructures")
"""What takes long to import, holds no known bug, and starts no thread: a thread's locks would be inherited as well."""
ALL = "all"


@dataclass(frozen=True)
class Search:
    """How bugs are looked for.

    Attributes:
        seed: the first one.
        cpu_seconds: how long each is looked for, in seconds of one core.
        results: file of what was found before, which is passed over, and of what is found; None for none.
        part: this one of so many parts, from 1, for processes that share the work.
    """

    seed: int = 0
    cpu_seconds: float = 60.0
    results: Path | None = None
    part: tuple[int, int] = (1, 1)


def find_all(bugs: Sequence[KnownBug], search: Search) -> int:
    """Look for some bugs, one after the other; gives 1 when one that can be found is not."""
    results, unbroken = Results(search.results), Unbroken()
    this, parts = search.part
    ours = [bug for number, bug in enumerate(bugs) if number % parts == this - 1 and not bug.why_not]
    missed = []
    for number, bug in enumerate(ours, 1):
        look = _look(bug, search, results, unbroken)
        if not look.rule:
            missed.append(bug.name)
        print(f"{number:3d}/{len(ours)}  {_line(bug, look)}", flush=True)
    unbroken.close()
    print(
        f"{len(ours) - len(missed)} of {len(ours)} were found, {sum(bool(bug.why_not) for bug in bugs)} more cannot"
        f" be; missed: {', '.join(missed) or 'none'}"
    )
    return 1 if missed else 0


def find_one(look: Look, cpu_seconds: float) -> Look:
    """Hunt in this process until a rule is broken.

    A history that ends with any other error finds nothing, and is counted as such.

    Args:
        look: what is looked for, from its seed on.
        cpu_seconds: how long to look, in seconds of one core.
    """
    from tests.simulation.history import play
    from tests.simulation.worlds import WORLDS

    world, first = WORLDS[look.world](), look.seed
    began, seed, errors, rule, words = time.process_time(), look.seed, 0, "", ""
    while not rule and time.process_time() - began < cpu_seconds:
        outcome = play(world, seed)
        seed += 1
        if outcome.violated:
            rule, words = outcome.rule, str(outcome.error)[:300]
        elif outcome.error is not None:
            errors += 1
            words = repr(outcome.error)[:300]
    seconds = round(time.process_time() - began, 1)
    return replace(
        look, rule=rule, words=words, errors=errors, seed=seed - 1, histories=seed - first, seconds=seconds
    )


def chosen(text: str, world_name: str) -> list[KnownBug]:
    """The bugs of a world, or of all, whose names have a text; `=NAME` is that very name."""
    return [
        bug
        for bug in BUGS
        if (bug.name == text[1:] if text.startswith("=") else text in bug.name)
        and world_name in (ALL, bug.world)
    ]


class Unbroken:
    """A process with the product as it is: a history that breaks a rule there as well finds no bug."""

    def __init__(self) -> None:
        self._pipe: Connection | None = None
        self._known: dict[tuple[str, int], str] = {}

    def rule(self, world_name: str, seed: int) -> str:
        """The rule that a history breaks without any bug; "" for none."""
        if (world_name, seed) not in self._known:
            if self._pipe is None:
                self._pipe, theirs = _context().Pipe()
                _context().Process(target=_play_unbroken, args=(theirs,), daemon=True).start()
                theirs.close()
            self._pipe.send((world_name, seed))
            self._known[world_name, seed] = self._pipe.recv()
        return self._known[world_name, seed]

    def close(self) -> None:
        """Let the process end."""
        if self._pipe is not None:
            self._pipe.close()


def _play_unbroken(pipe: Connection) -> None:
    from tests.simulation.history import play
    from tests.simulation.worlds import WORLDS

    with suppress(EOFError):
        while True:
            world_name, seed = pipe.recv()
            pipe.send(play(WORLDS[world_name](), seed).rule)


def _look(bug: KnownBug, search: Search, results: Results, unbroken: Unbroken) -> Look:
    """What is known of a bug; it is looked for where that does not suffice."""
    known = results.of(bug.world, bug.name)
    if known is not None and known.rule:
        return known
    if known is not None and known.source != source_of_tree():
        known = None  # the histories are others by now
    spent = 0.0 if known is None else known.seconds
    if known is not None and spent >= search.cpu_seconds - 1:
        return known
    first = search.seed if known is None else known.seed + 1
    while True:
        asked = Look(bug.world, bug.name, source_of_tree(), seed=first)
        known = _in_a_process(asked, search.cpu_seconds - spent).after(known)
        spent, first = known.seconds, known.seed + 1
        rule = unbroken.rule(bug.world, known.seed) if known.rule else ""
        if not rule:
            break
        print(f"         seed {known.seed} breaks the rule {rule} without a bug as well", flush=True)
        known = replace(known, rule="", words="", errors=known.errors + 1)
        if spent >= search.cpu_seconds:
            break
    results.add(known)
    return known


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(UNBROKEN))
    return context


def _in_a_process(look: Look, cpu_seconds: float) -> Look:
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_hunt_broken, args=(theirs, json.dumps(asdict(look)), cpu_seconds))
    process.start()
    theirs.close()
    try:
        found = Look(**json.loads(ours.recv()))
    except EOFError:
        found = replace(look, words="the process died", errors=1)
    process.join()
    return found


def _hunt_broken(answer: Connection, asked: str, cpu_seconds: float) -> None:
    look = Look(**json.loads(asked))
    break_product(BY_NAME[look.world, look.name].changes)
    answer.send(json.dumps(asdict(find_one(look, cpu_seconds))))


def _line(bug: KnownBug, look: Look) -> str:
    histories, seconds = f"{look.histories:,} histories", f"{look.seconds:.0f} s"
    if look.rule:
        return f"{bug.world}, {bug.name}: {look.rule} after {histories}, {seconds}, seed {look.seed}"
    errors = f", {look.errors} ended with an error such as {look.words}" if look.errors else ""
    return f"{bug.world}, {bug.name}: NOT FOUND in {histories}, {seconds}{errors}"
