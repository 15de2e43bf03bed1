"""The settings of limits and approvals, as fields of each collector's configuration, so that all collectors share one
text.
"""

from __future__ import annotations

from typing import Any

from dredge.settings import setting
from dredge.undo.ways import FIRST_OBJECTS_MAX

NEVER, OVER_LIMITS, ALWAYS = "never", "over_limits", "always"
# A mark older than this cannot be swept, so the wait for an answer ends then as well.
MARK_AGE_HOURS = 12.0
# Of the listed objects: a larger share is seldom garbage, so a person checks it first.
DELETE_PERCENT_MAX = 20.0
_WAITS = "than this need a person's approval; with `approval` = `never` they stop the run."


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


def approval_setting() -> Any:
    """The field for the rule of approvals."""
    return setting(
        "Approval by a person",
        "`over_limits`: a run beyond its limits waits for a person's approval. `always`: every run with objects to"
        " delete waits for an approval. `never`: a run beyond its limits fails. Dry runs need no approval.",
        default=OVER_LIMITS,
        choices=(OVER_LIMITS, ALWAYS, NEVER),
    )


def approval_hours_setting() -> Any:
    """The field for the waiting time, in hours."""
    return setting(
        "Hours to wait for an approval",
        "Without an answer in this time the run is rejected. The run must be swept within"
        f" {MARK_AGE_HOURS:g} hours of its plan, so the wait ends then at the latest.",
        default=MARK_AGE_HOURS,
        above=0,
        maximum=MARK_AGE_HOURS,
        because="a mark can be swept for the same time after its plan",
    )


def approvers_setting() -> Any:
    """The field for the approvers; `ids_of` reads it."""
    return setting(
        "Approvers",
        "Ids of the Airflow users with the right to answer, separated by commas; Airflow asks only them."
        " Empty: all users with the right to act on the DAG's required actions.",
        default=None,
    )


def ids_of(text: str | None) -> tuple[str, ...]:
    """Read the ids of approvers; () is everybody.

    Args:
        text: ids separated by commas; None for everybody.
    """
    return tuple(name for item in (text or "").split(",") if (name := item.strip()))
