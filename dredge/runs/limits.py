"""Limits of a run's deletions, findings of guards, figures, and the grace: how long garbage waits.

A finding is `passed`, `awaiting_approval` (a person may raise the limit), or `refused` (a proof is missing; no approval
helps).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from dredge.settings import HOURS_MAX, SECONDS_MAX, setting

type Verdict = Literal["passed", "awaiting_approval", "refused"]

_ORDER: dict[Verdict, int] = {"passed": 0, "awaiting_approval": 1, "refused": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a guard. `limit`: its bound; None if absent."""

    rule: str
    verdict: Verdict
    figure: float | int | str
    limit: float | int | str | None
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds; None is no limit."""

    objects: int | None = None  # number of deleted objects
    size_bytes: int | None = None
    percent: float | None = None  # their share of all listed objects

    def check(self, objects: int, size_bytes: int, of_objects: int) -> list[Finding]:
        """Compare candidates with the limits."""
        percent = 100.0 * objects / of_objects if of_objects else 0.0
        return [
            _at_most("max_objects", objects, self.objects, "objects would be deleted"),
            _at_most("max_bytes", size_bytes, self.size_bytes, "bytes would be deleted"),
            _at_most(
                "max_percent",
                round(percent, 3),
                self.percent,
                "percent of the listed objects would be deleted",
            ),
        ]


def _at_most(rule: str, figure: float | int, limit: float | int | None, what: str) -> Finding:
    if limit is None:
        return Finding(rule, "passed", figure, None, f"{figure:,} {what}; no limit is set")
    verdict: Verdict = "passed" if figure <= limit else "awaiting_approval"
    return Finding(rule, verdict, figure, limit, f"{figure:,} {what}; the limit is {limit:,}")


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the worst verdict."""
    return max((finding.verdict for finding in findings), key=_ORDER.__getitem__, default="passed")


EXAMPLES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Count and size of a kind of objects; a payload."""

    objects: int = 0
    size_bytes: int = 0
    examples: tuple[Any, ...] = ()  # addresses, or JSON objects with more about the object

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            objects=self.objects + other.objects,
            size_bytes=self.size_bytes + other.size_bytes,
            examples=(*self.examples, *other.examples)[:EXAMPLES_MAX],
        )

    def to_details(self) -> dict[str, Any]:
        """Return the JSON for summaries: `objects`, `bytes`, `examples`."""
        return {"objects": self.objects, "bytes": self.size_bytes, "examples": list(self.examples)}


def add_up(found: Iterable[Mapping[str, Figures]]) -> dict[str, Figures]:
    """Add figures by kind."""
    total: dict[str, Figures] = {}
    for figures in found:
        for kind, more in figures.items():
            total[kind] = total.get(kind, Figures()) + more
    return total


# Hours. With undo, daily runs confirm each other; without, an older or another database must be noticed
# first.
GRACE_HOURS, GRACE_HOURS_FINAL = 20.0, 72.0


def grace_hours_setting(more: str = "") -> Any:
    """Return the setting `grace_hours`; `more` is a sentence about this collector."""
    return setting(
        "Grace in hours",
        "A run deletes only objects that an earlier run found and that have waited for this long since. At least 20."
        f" Empty: 20 where deletions can be restored, 72 otherwise.{more}",
        default=None,
        minimum=GRACE_HOURS,
        maximum=HOURS_MAX,
        because="an incomplete mark, such as one of a restored database, is detected within a day. For tests, on a"
        " repository without writers, there is unsafe_grace_seconds",
    )


def unsafe_grace_setting() -> Any:
    """Return the setting `unsafe_grace_seconds`."""
    return setting(
        "Unsafe grace in seconds",
        "Replaces the grace and **skips the wait for a second run**. 0: a run deletes its own finds. For"
        " tests, demos, and maintenance windows without writers. Empty: not used.",
        default=None,
        minimum=0,
        maximum=SECONDS_MAX,
    )


def choose_grace(
    hours: float | None, unsafe_seconds: float | None, *, can_undo: bool, least_hours: float = 0
) -> timedelta:
    """Return how long garbage waits before another run may delete it. `unsafe_seconds`: replaces all others; None if
    not used."""
    if unsafe_seconds is not None:
        return timedelta(seconds=unsafe_seconds)
    default = GRACE_HOURS if can_undo else GRACE_HOURS_FINAL
    return timedelta(hours=max(default if hours is None else hours, least_hours))
