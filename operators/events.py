"""What became of a run, as one value for people and programs that Airflow's callbacks and notifiers tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

#: XCom of the task that ends a run, also of one that failed.
EVENT = "event"


def leave_event(
    context: Context,
    kind: str,
    repository: str,
    *,
    run: str = "",
    counts: Mapping[str, int] | None = None,
    report: str = "",
    text: str = "",
) -> None:
    """Leave the event of a run for callbacks of the task.

    :param context: of the task
    :param kind: what became of the run: its outcome, such as ``alarm``, ``refused``, ``failed`` or ``success``
    :param repository: name or URI
    :param run: its id; "" where it came to no plan
    :param counts: figures by name
    :param report: address of the page; "" where there is none
    :param text: what went wrong; "" for nothing
    """
    event = {
        "kind": kind,
        "repository": repository,
        "run": run,
        "counts": dict(counts or {}),
        "report": report,
        "text": text,
    }
    context["ti"].xcom_push(EVENT, event)
