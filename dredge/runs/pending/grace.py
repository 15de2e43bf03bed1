"""How long garbage waits: the settings of every collector."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dredge.settings import HOURS_MAX, SECONDS_MAX, setting

GRACE_HOURS, GRACE_HOURS_FINAL = 20.0, 72.0
"""How long garbage waits where deletions can be taken back: daily runs confirm each other. And where they cannot, or
nothing tells an older or another database."""


def grace_hours_setting(more: str = "") -> Any:
    """The setting `grace_hours`.

    Args:
        more: a sentence about this collector.
    """
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
    """The setting `unsafe_grace_seconds`."""
    return setting(
        "Unsafe grace in seconds",
        "Replaces the grace and **skips the wait for a second run**. 0: a run deletes its own finds. For"
        " tests, demos, and maintenance windows without writers. Empty: not used.",
        default=None,
        minimum=0,
        maximum=SECONDS_MAX,
    )


def grace_of(
    hours: float | None, unsafe_seconds: float | None, *, can_undo: bool, least_hours: float = 0
) -> timedelta:
    """How long garbage waits before another run may delete it.

    Args:
        hours: as the user asks for; None takes the default.
        unsafe_seconds: replace everything else; None: not used.
        can_undo: whether deletions can be taken back.
        least_hours: of this repository.
    """
    if unsafe_seconds is not None:
        return timedelta(seconds=unsafe_seconds)
    default = GRACE_HOURS if can_undo else GRACE_HOURS_FINAL
    return timedelta(hours=max(default if hours is None else hours, least_hours))
