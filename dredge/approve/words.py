"""Approvals in the words of reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def approval_text(said: Mapping[str, Any]) -> str:
    """Word what a person was asked and said.

    Args:
        said: as `ApproveOutput.approval` gives it.
    """
    if said["state"] == "waiting":
        return f"awaited until {said['answer_until'][:16].replace('T', ' ')} UTC. {said['why']}"
    at = f"{said['at'][:19].replace('T', ' ')} UTC"
    if not said["by"]:
        return f"nobody had approved it by {at}. {said['why']}"
    return f"{said['state']} by {said['by']} ({said['through']}), {at}. {said['why']}"


def what_to_do(outcome: str, command: str) -> str:
    """Say what the reader of a report should do about an approval; "" for other outcomes.

    Args:
        outcome: of the run.
        command: of the collector, such as "dredge gc".
    """
    if outcome == "awaiting_approval":
        return (
            "Read below what would go. Then approve or reject it: under Required Actions where the run is Airflow's,"
            f" with `{command} approve` or `{command} reject` and the folder of the run everywhere. A local run then"
            f" goes on with `{command} resume`."
        )
    if outcome == "rejected":
        return "Nothing. A new run looks at everything again, and asks again where it has to."
    return ""
