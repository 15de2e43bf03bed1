"""A preflight: checks before a run, each with a line as its result.

Checks of a group run in parallel, each in its own thread. A hanging service costs the time of a single check.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Literal

from msgspec import Struct

from dredge.errors import AlarmError, DefectError, DredgeError
from dredge.runs.failures import defect

type Level = Literal["ok", "warning", "error"]
_ORDER: dict[Level, int] = {"ok": 0, "warning": 1, "error": 2}
# For all checks, so that a command answers within 20 s.
SECONDS_MAX = 18.0


class Line(Struct, frozen=True):
    """The result of a check; a payload."""

    check: str
    level: Level  # "error" if a deleting run would stop or do harm; "warning" otherwise
    text: str
    todo: str = ""  # the action to take; "" if absent
    kind: str = ""  # of the error; "" if absent


class Check(Struct, frozen=True):
    """A check."""

    name: str  # stable; for the line of a check without an answer
    ask: Callable[[], Iterable[Line]]  # returns the lines; a `DredgeError` becomes a line
    todo: str = ""  # action for an error; "" takes that of the error's family


class Preflight(Struct, frozen=True):
    """All results."""

    about: str
    lines: tuple[Line, ...]
    seconds: float

    @property
    def level(self) -> Level:
        """The worst level."""
        return max((line.level for line in self.lines), key=_ORDER.__getitem__, default="ok")

    def to_report(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "about": self.about,
            "level": self.level,
            "seconds": round(self.seconds, 1),
            "lines": [
                {"check": line.check, "level": line.level, "text": line.text, "todo": line.todo}
                | ({"kind": line.kind} if line.kind else {})
                for line in self.lines
            ],
        }


def perform(about: str, groups: Iterator[Sequence[Check]], seconds_max: float = SECONDS_MAX) -> Preflight:
    """Run all checks. `groups`: of checks; a group starts after the one before, so it may use its results.
    `seconds_max`: for all; a check without an answer is an error."""
    started = time.monotonic()
    lines: list[Line] = []
    for group in groups:
        lines.extend(_ask(group, started + seconds_max))
    return Preflight(about, tuple(lines), time.monotonic() - started)


def ok(check: str, text: str) -> Line:
    """Return a line without a problem."""
    return Line(check, "ok", text)


def warning(check: str, text: str, todo: str) -> Line:
    """Return a line with a warning and what to do."""
    return Line(check, "warning", text, todo)


def _ask(checks: Sequence[Check], until: float) -> list[Line]:
    answers: SimpleQueue[tuple[int, list[Line]]] = SimpleQueue()
    for number, check in enumerate(checks):
        # A thread that hangs in a request must not keep the process: a pool would wait for it.
        threading.Thread(target=_answer, args=(number, check, answers), daemon=True).start()
    found: dict[int, list[Line]] = {}
    while len(found) < len(checks):
        try:
            number, lines = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        found[number] = lines
    return [line for number, check in enumerate(checks) for line in found.get(number, [_silent(check)])]


def _answer(number: int, check: Check, answers: SimpleQueue[tuple[int, list[Line]]]) -> None:
    lines: list[Line] = []
    try:
        lines.extend(check.ask())
    except DredgeError as error:
        lines.append(line_of(check.name, error, check.todo))
    except Exception as error:  # it would be lost with the thread
        lines.append(line_of(check.name, defect(f"the check {check.name}", error)))
    answers.put((number, lines))


def line_of(check: str, error: DredgeError, todo: str = "") -> Line:
    """Return the line for an error."""
    what = todo or (DefectError if isinstance(error, DefectError) else type(error)).what_to_do
    return Line(check, "error", str(error), what, error.kind)


def alarms_line(num_open: int, todo: str) -> Line:
    """Return the line for a number of open alarms."""
    if not num_open:
        return ok("alarms", "none is open")
    return Line("alarms", "error", f"{num_open:,} alarms are open", todo, AlarmError.kind)


def _silent(check: Check) -> Line:
    return Line(
        check.name,
        "error",
        "no answer in time",
        "See whether the service answers at all from here (network, firewall, proxy), and how fast.",
        "unavailable",
    )
