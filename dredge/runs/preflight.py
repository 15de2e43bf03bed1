"""A preflight: asks for everything that a run will need, before the run, each question as one line with its answer.

All checks of a group work at once, each in a thread of its own: a service that does not answer costs the time of one
check, and the others still say what they found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Literal

from dredge.errors import AlarmError, DefectError, DredgeError
from dredge.runs.failures import defect

type Level = Literal["ok", "warning", "error"]
_ORDER: dict[Level, int] = {"ok": 0, "warning": 1, "error": 2}
SECONDS_MAX = 18.0
"""For everything, so that a command answers within 20 s."""


@dataclass(frozen=True, slots=True)
class Line:
    """The answer to one question; a payload.

    Attributes:
        check: stable name of what was looked at.
        level: "error" where a run that deletes would stop or be at fault, "warning" where a person should know.
        text: what was found, half a sentence.
        todo: the one thing to do; "" where there is nothing.
        kind: of the error that was met; "" for none.
    """

    check: str
    level: Level
    text: str
    todo: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A question.

    Attributes:
        name: stable; of the line that says that there was no answer.
        ask: gives one line or more; a `DredgeError` becomes a line.
        todo: for that line; "" takes what the family of the error says.
    """

    name: str
    ask: Callable[[], Iterable[Line]]
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Preflight:
    """All answers.

    Attributes:
        about: the repository or store.
        lines: in the order of the questions.
        seconds: that it took.
    """

    about: str
    lines: tuple[Line, ...]
    seconds: float

    @property
    def level(self) -> Level:
        """The worst one."""
        return max((line.level for line in self.lines), key=_ORDER.__getitem__, default="ok")

    def to_report(self) -> dict[str, Any]:
        """As a JSON object."""
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
    """Ask all questions.

    Args:
        about: the repository or store.
        groups: of checks; the next group is asked for when the one before was answered, so it may use its answers.
        seconds_max: for all together; what has not answered by then is an error.
    """
    started = time.monotonic()
    lines: list[Line] = []
    for group in groups:
        lines.extend(_ask(group, started + seconds_max))
    return Preflight(about, tuple(lines), time.monotonic() - started)


def ok(check: str, text: str) -> Line:
    """A line about something that is as it should be."""
    return Line(check, "ok", text)


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
    """The line about an error."""
    what = todo or (DefectError if isinstance(error, DefectError) else type(error)).what_to_do
    return Line(check, "error", str(error), what, error.kind)


def alarms_line(num_open: int, todo: str) -> Line:
    """The line about alarms.

    Args:
        num_open: that nobody has acknowledged.
        todo: what to do where there are some.
    """
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
