"""The settings of limits and approvals, for the configuration of each collector: its fields are made here, so that the
same words mean the same everywhere."""

from __future__ import annotations

from typing import Any

from dredge.settings import setting
from dredge.undo.ways import FIRST_OBJECTS_MAX

NEVER, OVER_LIMITS, ALWAYS = "never", "over_limits", "always"
MARK_AGE_HOURS = 12.0
"""A mark older than this cannot be swept, so nobody waits for an answer any longer either."""
DELETE_PERCENT_MAX = 20.0
"""Of what is listed: more than that is seldom garbage, so somebody looks at it first."""
_WAITS = "than this wait for a person's approval; where `approval` is `never`, they stop the run."


def objects_limit() -> Any:
    """Make the field of the most objects."""
    return setting(
        "Most objects to delete",
        f"More objects {_WAITS} Empty: no limit, but {FIRST_OBJECTS_MAX:,} in the first run that deletes where `undo`"
        " is off.",
        default=None,
        minimum=0,
    )


def bytes_limit() -> Any:
    """Make the field of the most bytes."""
    return setting("Most bytes to delete", f"More bytes {_WAITS} Empty: no limit.", default=None, minimum=0)


def share_limit() -> Any:
    """Make the field of the largest share, in percent."""
    return setting(
        "Largest share to delete, in percent of the listed objects",
        "A larger share than this waits for a person's approval; where `approval` is `never`, it stops the run. Empty:"
        " no limit.",
        default=DELETE_PERCENT_MAX,
        minimum=0,
        maximum=100,
    )


def approval_setting() -> Any:
    """Make the field that says when somebody is asked."""
    return setting(
        "Approval by a person",
        "`over_limits`: a run that would delete more than its limits allow waits until a person approves it. `always`:"
        " so does every run that would delete anything. `never`: a run beyond its limits fails. Dry runs ask nobody.",
        default=OVER_LIMITS,
        choices=(OVER_LIMITS, ALWAYS, NEVER),
    )


def approval_hours_setting() -> Any:
    """Make the field of the hours that are waited."""
    return setting(
        "Hours to wait for an approval",
        "When nobody has answered by then, that counts as a no. The run must be swept within"
        f" {MARK_AGE_HOURS:g} hours of its plan, so the wait ends then at the latest.",
        default=MARK_AGE_HOURS,
        above=0,
        maximum=MARK_AGE_HOURS,
        because="what a run has found out may be swept for as long after its plan",
    )


def approvers_setting() -> Any:
    """Make the field of those who may answer; `ids_of` reads it."""
    return setting(
        "Approvers",
        "Ids of the Airflow users who may answer, separated by commas; Airflow shows the question to them alone. Empty:"
        " everybody who may act on the DAG's required actions.",
        default=None,
    )


def ids_of(text: str | None) -> tuple[str, ...]:
    """Read the ids of those who may answer; () is everybody.

    Args:
        text: ids with commas between them; None for nobody in particular.
    """
    return tuple(name for item in (text or "").split(",") if (name := item.strip()))
