"""Limits of a run's deletions, findings of guards, and figures.

A finding is `passed`, `awaiting_approval` (a person may raise the limit), or `refused` (a proof is missing; no approval
helps).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from dredge.settings import setting

# Of the listed objects: a larger share is seldom garbage, so a person checks it first.
DELETE_PERCENT_MAX = 20.0
# Without undo, the first deleting run asks a person before it deletes more.
FIRST_OBJECTS_MAX = 1_000
_WAITS = "than this need a person's approval; with `approval` = `never` they stop the run."

type Verdict = Literal["passed", "awaiting_approval", "refused"]

_ORDER: dict[Verdict, int] = {"passed": 0, "awaiting_approval": 1, "refused": 2}


class Finding(Struct, frozen=True):
    """The result of a guard. `limit`: its bound; None if absent."""

    rule: str
    verdict: Verdict
    figure: float | int | str
    limit: float | int | str | None
    text: str


class Limits(Struct, frozen=True):
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


def objects_limit() -> Any:
    """The field for the limit of objects."""
    return setting(
        "Most objects to delete",
        f"More objects {_WAITS} Empty: no limit, except {FIRST_OBJECTS_MAX:,} in the first deleting run with `undo`"
        " off.",
        default=None,
        minimum=0,
    )


def bytes_limit() -> Any:
    """The field for the limit of bytes."""
    return setting("Most bytes to delete", f"More bytes {_WAITS} Empty: no limit.", default=None, minimum=0)


def share_limit() -> Any:
    """The field for the limit of the share, in percent."""
    return setting(
        "Largest share to delete, in percent of the listed objects",
        "A larger share than this needs a person's approval; with `approval` = `never` it stops the run. Empty:"
        " no limit.",
        default=DELETE_PERCENT_MAX,
        minimum=0,
        maximum=100,
    )


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the worst verdict."""
    return max((finding.verdict for finding in findings), key=_ORDER.__getitem__, default="passed")


EXAMPLES_MAX = 10


class Figures(Struct, frozen=True, kw_only=True):
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
