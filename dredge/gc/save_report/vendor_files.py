"""The files that lakeFS's own collector writes at the end of a run, in the same places and forms.

    summary.json    one line
    deleted/        parquet with one column `address`; deleted.text/ the same as text. Only what was confirmed deleted

A dry run reports no deleted objects at all, so that nothing which trusts these files could delete them later without
looking again.

Source: docs/lakefs-behaviour.md, "The design documents"
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from dredge.errors import DredgeError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.plan import Plan
from dredge.gc.save_report.results import ENDED
from dredge.gc.slice_listing import SliceListingOutput
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.runs.tries import StepTry

SUMMARY = "summary.json"


def write_deleted(folder: RunFolder, attempt: StepTry) -> list[PartInfo]:
    """Write the addresses of confirmed deletions, a file for each part of the ledger.

    Args:
        folder: the run folder.
        attempt: whose files these are; it is looked before each whether it still counts.

    Returns:
        The files; none when the ledger cannot be read.

    Raises:
        OvertakenError: a later try was claimed.
    """
    step = BulkDeleteOutput.STEP
    try:
        swept = folder.read_summary(step) or folder.read_incomplete(step)
    except DredgeError:
        return []
    parts: list[PartInfo] = []
    for part in BulkDeleteOutput.of(swept).settled if swept is not None else ():
        rows = folder.read_part(part, ["address", "outcome"])
        gone = rows.filter(pc.equal(rows["outcome"], ledger.DELETED)).select(["address"])
        if not gone.num_rows:
            continue
        index = len(parts) // 2
        attempt.check()
        parts.append(folder.write_table("deleted", index, gone))
        lines = "".join(f"{_text_line(address)}\n" for address in gone["address"].to_pylist())
        parts.append(folder.write_bytes(f"deleted.text/part-{index:05d}.txt", lines.encode(), gone.num_rows))
    return parts


def _text_line(address: str) -> str:
    """An address as a line; only what would break the line is quoted, as JSON."""
    return json.dumps(address) if any(ord(character) < 32 for character in address) else address


def summary_of(folder: RunFolder, plan: Plan, report: Mapping[str, Any]) -> bytes:
    """What `summary.json` says; who approved a run that had to ask is said as well.

    Args:
        folder: the run folder.
        plan: the run's plan.
        report: its outcome, of which one with failures is never a success, its figures, and its approval.
    """
    listing = folder.read_summary(SliceListingOutput.STEP)
    value: dict[str, Any] = {
        "run_id": plan.run_id,
        "success": report["outcome"] in ENDED,
        "first_slice": SliceListingOutput.of(listing).first_slice if listing is not None else "",
        "start_time": _instant(plan.created_at),
        "cutoff_time": _instant(plan.cutoff),
        "num_deleted_objects": report["counts"].get("deleted_objects", 0),
    }
    if report["approval"] is not None:
        value["approval"] = report["approval"]
    return f"{json.dumps(value)}\n".encode()


def _instant(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
