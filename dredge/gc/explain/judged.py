"""What runs thought of an object: from the newest that had it among its candidates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError
from dredge.gc.analysis.base_run import runs_below
from dredge.gc.approve import ApproveOutput
from dredge.gc.bulk_delete import BulkDeleteOutput, why_kept
from dredge.gc.check_limits import HOLD_COLUMNS, CheckLimitsOutput, Holds, why_held
from dredge.gc.explain.answer import Judged
from dredge.gc.explain.target import Target
from dredge.gc.plan import Plan
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo
from dredge.storage import StorageOptions
from dredge.undo import VERSIONS, way_back


def last_judged(
    target: Target, hashed: int, root: str, options: StorageOptions | None = None, runs_max: int = 100
) -> tuple[Judged | None, list[str]]:
    """Find the newest run that had an object among its candidates.

    Args:
        target: the object.
        hashed: hash of its address.
        root: URI of the namespace, or the run root.
        options: None reads the environment.
        runs_max: runs to look into.

    Returns:
        What it thought; and what was not looked at, as sentences.
    """
    unread: list[str] = []
    looked = 0
    for folder, plan in runs_below(root, options):
        if plan.repository != target.repository:
            continue
        if looked == runs_max:
            unread.append(f"runs older than {folder.run_id}")
            break
        looked += 1
        try:
            found = _judged(folder, target.address, hashed, plan, options)
        except DredgeError as error:
            unread.append(f"run {folder.run_id}: {error}")
            continue
        if found is not None:
            return found, unread
    return None, unread


def _judged(
    folder: RunFolder, address: str, hashed: int, plan: Plan, options: StorageOptions | None
) -> Judged | None:
    candidates = _output(folder, SubtractOutput)
    if candidates is None:
        return None
    found = _row(folder, candidates.candidates, address, hashed)
    if found is None:
        return None
    part, row = found
    at = plan.created_at
    swept = _output(folder, BulkDeleteOutput)
    if swept is not None and swept.is_settled:
        judged = _from_ledger(folder, swept, part, address, row["reason"][0].as_py())
        return None if judged is None else _restorable(judged, folder, plan, address, options)
    reason = row["reason"][0].as_py()
    hold = row["hold"][0].as_py() or ""
    guards = _output(folder, CheckLimitsOutput)
    if guards is not None:
        hold = Holds.of(folder, guards.hold_files).codes_of(row)[0].as_py() or ""
    return Judged(folder.run_id, at, reason, "", hold, why_held(hold) if hold else REASONS[reason])


def _from_ledger(
    folder: RunFolder, swept: BulkDeleteOutput, part: PartInfo, address: str, reason: str
) -> Judged | None:
    rows = folder.read_part(swept.settled_of(part))
    rows = rows.filter(pc.equal(rows["address"], address))
    if not rows.num_rows:
        return None
    (row,) = rows.to_pylist()
    at = swept.summary.finished_at
    if row["outcome"] == ledger.KEPT:
        return Judged(folder.run_id, at, reason, ledger.KEPT, row["code"] or "", why_kept(row["code"] or ""))
    why = row["message"] or REASONS[reason]
    judged = Judged(folder.run_id, at, reason, row["outcome"], "", why, row["version_id"] or "")
    approved = _output(folder, ApproveOutput)
    if approved is None:
        return judged
    said = approved.approval
    return replace(judged, approved_by=said["by"], approved_at=datetime.fromisoformat(said["at"]))


def _restorable(
    judged: Judged, folder: RunFolder, plan: Plan, address: str, options: StorageOptions | None
) -> Judged:
    """Add whether a restore would find what it needs."""
    if judged.outcome not in (ledger.DELETED, ledger.MISSING):
        return judged
    by_versions = plan.undo.way == VERSIONS
    way = way_back(plan.namespace, folder.uri, address, judged.version_id, options, by_versions)
    until = plan.undo.until(plan.created_at, plan.config.purge_days)
    return replace(judged, restorable=way, restorable_until=until)


def _row(
    folder: RunFolder, parts: Iterable[PartInfo], address: str, hashed: int
) -> tuple[PartInfo, pa.Table] | None:
    """Find the row of an object, and the part that has it."""
    for part in parts:
        if not np.any(folder.read_part(part, ["hash"])["hash"].to_numpy() == np.uint64(hashed)):
            continue
        rows = folder.read_part(part, ["address", "reason", *HOLD_COLUMNS])
        rows = rows.filter(pc.equal(rows["address"], address))
        if rows.num_rows:
            return part, rows.slice(0, 1)
    return None


def _output[O: StepOutput](folder: RunFolder, output: type[O]) -> O | None:
    summary = folder.read_summary(output.STEP)
    return None if summary is None else output.of(summary)
