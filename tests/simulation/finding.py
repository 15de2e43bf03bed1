"""Looks after how many histories a bug is found.

Each broken product has a process of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from statistics import median

from tests.mutations.breakages.breakage import Breakage
from tests.simulation.broken import break_in_place, break_product
from tests.simulation.focus import Focus
from tests.simulation.known_bugs import BUGS, BY_NAME, KnownBug
from tests.simulation.results import Look, Results, source_of_tree

IMPORTED = ("tests.simulation.imported",)
"""What takes long to import, and starts no thread: a thread's locks would be inherited as well."""
ALL = "all"


@dataclass(frozen=True)
class Search:
    """How bugs are looked for.

    Attributes:
        seed: the first one.
        cpu_seconds: how long each is looked for, in seconds of one core.
        results: file of what was found before, which is passed over, and of what is found; None for none.
        part: this one of so many parts, from 1, for processes that share the work.
        page: file that is written of all that is known; None for none.
    """

    seed: int = 0
    cpu_seconds: float = 60.0
    results: Path | None = None
    part: tuple[int, int] = (1, 1)
    page: Path | None = None


def find_all(bugs: Sequence[KnownBug], search: Search) -> int:
    """Look for some bugs, one after the other; gives 1 when one that can be found is not."""
    results, unbroken = Results(search.results), Player()
    this, parts = search.part
    ours = [bug for number, bug in enumerate(bugs) if number % parts == this - 1 and not bug.why_not]
    if not search.cpu_seconds:
        ours = []
    missed = []
    for number, bug in enumerate(ours, 1):
        look = _look(bug, search, results, unbroken)
        if not look.rule:
            missed.append(bug.name)
        print(f"{number:3d}/{len(ours)}  {_line(bug, look)}", flush=True)
    unbroken.close()
    if search.page is not None:
        search.page.write_text(page(bugs, results))
    print(f"missed: {', '.join(missed) or 'none'}\n\n{table(bugs, results)}")
    return 1 if missed else 0


def table(bugs: Sequence[KnownBug], results: Results) -> str:
    """What is known of some bugs, as a table in Markdown: a line for each world, seconds of one core."""
    lines = [
        "| World | Bugs | No history can show | Found | only with another guard broken | seconds: median, most"
        " | Looked for in vain | Not looked for |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for world in sorted({bug.world for bug in bugs}):
        here = [bug for bug in bugs if bug.world == world]
        looks = [results.of(world, bug.name) for bug in here if not bug.why_not]
        found = sorted(look.seconds for look in looks if look is not None and look.rule)
        vain = sum(look is not None and not look.rule for look in looks)
        seconds = f"{median(found):.0f}, {found[-1]:.0f}" if found else ""
        pairs = sum(bool(bug.beside) and _is_found(results.of(world, bug.name)) for bug in here)
        cells = len(here), len(here) - len(looks), len(found), pairs, seconds, vain, looks.count(None)
        lines.append(f"| {world} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def page(bugs: Sequence[KnownBug], results: Results) -> str:
    """All that is known of each bug, as a page in Markdown."""
    lines = [
        "# Known bugs, and after how many histories each is found",
        "",
        "`./run simulate --known-bugs --world all --cpu-seconds 0 --results tests/simulation/known_bugs.jsonl --page"
        " tests/simulation/known_bugs.md` makes this page of what looking gave.",
        "",
        table(bugs, results),
    ]
    for world in sorted({bug.world for bug in bugs}):
        lines += ["", f"## {world}", "", "| Bug | Rule | Histories | CPU seconds |", "|---|---|---|---|"]
        lines += [_row(bug, results.of(world, bug.name)) for bug in bugs if bug.world == world]
    return "\n".join([*lines, ""])


def _is_found(look: Look | None) -> bool:
    return look is not None and bool(look.rule)


def _row(bug: KnownBug, look: Look | None) -> str:
    others = ", ".join(other.name for other in bug.beside)
    name = f"{bug.name}; together with: {others}" if others else bug.name
    if bug.why_not:
        found = f"; `{bug.tests[0]}` does" if bug.tests else ""
        return f"| {name} | none: {bug.why_not}{found} | | |"
    if look is None:
        return f"| {name} | not looked for | | |"
    return f"| {name} | {look.rule or 'not found'} | {look.histories} | {look.seconds:.0f} |"


def find_one(look: Look, cpu_seconds: float) -> Look:
    """Hunt in this process until a rule is broken.

    A history that ends with any other error finds nothing, and is counted as such.

    Args:
        look: what is looked for, from its seed on.
        cpu_seconds: how long to look, in seconds of one core.
    """
    from tests.simulation.history import play
    from tests.simulation.machine import import_product
    from tests.simulation.worlds import WORLDS

    import_product()
    bug = BY_NAME[look.world, look.name]
    world, first = WORLDS[look.world](focus=bug.focus), look.seed
    began, seed, errors, rule, words = time.process_time(), look.seed, 0, "", ""
    while not rule and time.process_time() - began < cpu_seconds:
        outcome = play(world, seed)
        seed += 1
        if outcome.violated:
            rule, words = outcome.rule, _words(str(outcome.error))
        elif outcome.error is not None:
            errors += 1
            words = _words(repr(outcome.error))
    seconds = round(time.process_time() - began, 1)
    return replace(
        look, rule=rule, words=words, errors=errors, seed=seed - 1, histories=seed - first, seconds=seconds
    )


def _words(text: str) -> str:
    """The beginning of what an error says, without the folder that this checkout lies in."""
    return re.sub(r'File "[^"]*/(dredge|tests)/', r'File "\1/', text)[:300]


def chosen(text: str, world_name: str) -> list[KnownBug]:
    """The bugs of a world, or of all, whose names have one of some texts, with `|` between them; `=NAME` is a name."""

    def fits(bug: KnownBug) -> bool:
        return any(bug.name == part[1:] if part[:1] == "=" else part in bug.name for part in text.split("|"))

    return [bug for bug in BUGS if world_name in (ALL, bug.world) and fits(bug)]


class Player:
    """A process with the product as it is, or with less broken: what a history breaks there as well finds no bug.

    Args:
        changes: of the product.
    """

    def __init__(self, changes: Sequence[Breakage] = ()) -> None:
        self._changes = tuple(changes)
        self._pipe: Connection | None = None
        self._known: dict[tuple[str, str, int], str] = {}

    def rule(self, bug: KnownBug, seed: int) -> str:
        """The rule that a history breaks there which a hunt for a bug plays; "" for none."""
        asked = bug.world, bug.focus.to_text(), seed
        if asked not in self._known:
            if self._pipe is None:
                self._pipe, theirs = _context().Pipe()
                self._start(theirs)
                theirs.close()
            self._pipe.send(asked)
            self._known[asked] = self._pipe.recv()
        return self._known[asked]

    def _start(self, theirs: Connection) -> None:
        process = _context().Process(target=_play_each, args=(theirs, self._changes, True), daemon=True)
        process.start()
        if self._pipe is not None and not self._pipe.recv():
            spawned = multiprocessing.get_context("spawn")
            spawned.Process(target=_play_each, args=(theirs, self._changes, False), daemon=True).start()
            self._pipe.recv()

    def close(self) -> None:
        """Let the process end."""
        if self._pipe is not None:
            self._pipe.close()


def _play_each(pipe: Connection, changes: Sequence[Breakage], quick: bool) -> None:
    if quick and not break_in_place(changes):
        pipe.send("")
        return
    if not quick:
        break_product(changes)
    pipe.send("ready")
    from tests.simulation.history import play
    from tests.simulation.worlds import WORLDS

    with suppress(EOFError):
        while True:
            world_name, focus, seed = pipe.recv()
            pipe.send(play(WORLDS[world_name](focus=Focus.from_text(focus)), seed).rule)


def _look(bug: KnownBug, search: Search, results: Results, unbroken: Player) -> Look:
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
        rule = unbroken.rule(bug, known.seed) if known.rule else ""
        if not rule and not _breaks_alone(bug, known):
            break
        print(f"         seed {known.seed} breaks the rule {known.rule} with less broken as well", flush=True)
        known = replace(known, rule="", words="", errors=known.errors + 1)
        if spent >= search.cpu_seconds:
            break
    results.add(known)
    return known


def _breaks_alone(bug: KnownBug, look: Look) -> bool:
    """Whether a history breaks a rule also with only one of two guards broken."""
    if not look.rule or not bug.beside:
        return False
    for changes in (bug.changes, bug.beside):
        player = Player(changes)
        try:
            if player.rule(bug, look.seed) == look.rule:
                return True
        finally:
            player.close()
    return False


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _in_a_process(look: Look, cpu_seconds: float, quick: bool = True) -> Look:
    """Hunt in a process of its own: one that has the product already, where it can be broken there as well."""
    context: ForkServerContext | SpawnContext = _context() if quick else multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    asked = json.dumps(asdict(look))
    process = context.Process(target=_hunt_broken, args=(theirs, asked, cpu_seconds, quick))
    process.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        answer = json.dumps(asdict(replace(look, words="the process died", errors=1)))
    process.join()
    return Look(**json.loads(answer)) if answer else _in_a_process(look, cpu_seconds, quick=False)


def _hunt_broken(answer: Connection, asked: str, cpu_seconds: float, quick: bool) -> None:
    look = Look(**json.loads(asked))
    bug = BY_NAME[look.world, look.name]
    changes = [*bug.changes, *bug.beside]
    if quick and not break_in_place(changes):
        answer.send("")
        return
    if not quick:
        break_product(changes)
    answer.send(json.dumps(asdict(find_one(look, cpu_seconds))))


def _line(bug: KnownBug, look: Look) -> str:
    histories, seconds = f"{look.histories:,} histories", f"{look.seconds:.0f} s"
    if look.rule:
        return f"{bug.world}, {bug.name}: {look.rule} after {histories}, {seconds}, seed {look.seed}"
    errors = f", {look.errors} ended with an error such as {look.words}" if look.errors else ""
    return f"{bug.world}, {bug.name}: NOT FOUND in {histories}, {seconds}{errors}"
