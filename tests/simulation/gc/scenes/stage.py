"""Parts of scenes: a stage, moments of a run, and a few draws."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.clock import DAY, HOUR
from tests.simulation.gc.temper import Temper
from tests.simulation.history import Move
from tests.simulation.writers import BRANCHES, CONTENTS, OLDEST

SLEEPS = (330.0, 400.0, 900.0, HOUR, 2 * HOUR, 14 * HOUR)


@dataclass(frozen=True)
class Stage:
    """The stage of a scene."""

    temper: Temper  # of the history
    run: int  # number of the run that it is about
    at: float  # when that begins
    length: float  # about how long it takes, in seconds

    def during(self, chance: random.Random) -> float:
        """A time during the run."""
        return self.at + chance.random() * self.length * chance.choice((0.4, 1.0, 1.0, 1.5))

    def past(self, days: float) -> float:
        return -days * DAY


MOMENTS = (
    ("slice_listing", "list"),
    ("mark_uncommitted", "list_branches"),
    ("mark_uncommitted", "prepare_uncommitted"),
    ("mark_uncommitted", "diff_branch"),
    ("list_committed", "list_branches"),
    ("list_committed", "prepare_commits_async"),
    ("list_committed", "put"),
    ("subtract", "put"),
    ("check_limits", "stat_object"),
    ("check_limits", "put"),
    ("bulk_delete", "list_branches"),
    ("bulk_delete", "prepare_uncommitted"),
    ("bulk_delete", "prepare_uncommitted"),
    ("bulk_delete", "prepare_commits_async"),
    ("bulk_delete", "put"),
    ("bulk_delete", "delete"),
    ("bulk_delete", "delete"),
    ("verify", "stat"),
)
"""Calls of a run for moves: role and name."""
SWEEPING = (("bulk_delete", "get"), ("bulk_delete", "put"), ("bulk_delete", "delete"))


def moment(
    chance: random.Random, stage: Stage, verb: str, *args: Any, among: Sequence[tuple[str, str]] = MOMENTS
) -> Move:
    """A move made at some call of a run."""
    number = 1 + int(chance.random() ** 2 * 6)
    return Move(max(0.0, stage.at - 1), "when", (*chance.choice(among), number, verb, *args))


def content(chance: random.Random) -> bytes:
    """Draw bytes: often of a common length, or of a unique one."""
    return chance.choice(CONTENTS) if chance.random() < 0.5 else bytes(chance.randrange(3, 60))


type Moves = list[Move]
type Scene = Callable[[random.Random, Stage], Moves]


def head_moves(chance: random.Random, branch: str, path: str) -> tuple[str, tuple[Any, ...]]:
    verb = chance.choice(
        (
            "commit",
            "commit",
            "metadata",
            "reset path",
            "reset",
            "hard reset",
            "hard reset",
            "delete branch",
            "re-create branch",
            "upload",
            "delete",
            "copy",
            "merge",
        )
    )
    old = OLDEST + chance.randrange(6)
    args: dict[str, tuple[Any, ...]] = {
        "commit": (branch, chance.choice((0, 40))),
        "reset": (branch,),
        "hard reset": (branch, old),
        "delete branch": (branch,),
        "re-create branch": (branch, old, 0.0),
        "upload": (branch, path, content(chance)),
        "copy": (branch, path, path, branch),
        "merge": (branch, "main", ""),
    }
    return verb, args.get(verb, (branch, path))


def run_of(
    at: float,
    name: str,
    mode: str = "clean",
    *,
    dry_run: bool = False,
    most: int | None = None,
    policy: int = 0,
    window: tuple[float, float] | None = None,
    by: str = "dag",
    approval: tuple[str, float] = ("over_limits", 12.0),
    undo: str = "off",
    root: str = "",
) -> Move:
    """A run, with arguments as in `drawing._draw_run`."""
    last = (root,) if root else ()
    return Move(at, "run", (name, mode, dry_run, most, policy, window, by, approval, undo, *last))


def branches(stage: Stage, days: float = 44.0) -> Moves:
    """Make all branches, most likely."""
    return [Move(stage.past(days), "create branch", (branch, "main")) for branch in BRANCHES[1:]]


def garbage(chance: random.Random, stage: Stage, *counts: int) -> Moves:
    """Some unreferenced objects, each of a unique length, old at the beginning of the run, and not before."""
    at = stage.at - 26.5 * HOUR
    return [Move(at, "orphan", (bytes(60 + n),)) for n in range(chance.choice(counts))]


def expired(chance: random.Random, stage: Stage) -> Moves:
    """Content of an expired commit only, with a unique length."""
    branch, path = stage.temper.branch(chance), stage.temper.path(chance)
    return [
        Move(stage.past(44), "rules", (1, 0)),
        Move(stage.past(43), "upload", (branch, path, bytes(chance.randrange(100, 140)))),
        Move(stage.past(42), "commit", (branch, 0)),
        Move(stage.past(30), "delete", (branch, path)),
        Move(stage.past(29), "commit", (branch, 0)),
        Move(stage.past(9), "upload", (branch, path, bytes(chance.randrange(140, 150)))),
        Move(stage.past(8), "commit", (branch, 0)),
    ]
