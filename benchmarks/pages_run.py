"""Enlarges a run for the pages: real files of candidates and ledger, with generated addresses.

A small run is collected as usual. Then Dredge's own writers rewrite its candidates and ledger with more rows,
so that the pages read a run of that size. A copy without the ledger represents a dry run.
"""

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from benchmarks.scale_objects import Virtual, etags, sizes, strings
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.run import PLAN
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.gc.subtract.candidates import CANDIDATES
from dredge.hashing import hash64
from dredge.runs import ledger
from dredge.runs.folder import SUCCESS, RunFolder
from dredge.runs.payload import PartInfo, StepSummary, from_json, to_sealed
from dredge.runs.tries import StepTry
from dredge.storage import open_writer
from dredge.xid import descending_time, new_descending_xid

PART_ROWS = 100_000
"""Default rows of a part."""
_HELD = "unreadable"
_BY = ("reason", "outcome", "code")


def grow(runs: Path, rows: int, part_rows: int = PART_ROWS) -> None:
    """Rewrite the newest run of a folder with a number of candidates and ledger rows, and add a dry run.

    Args:
        runs: folder of the runs.
        rows: number of rows.
        part_rows: rows of a part.
    """
    newest = min(path.name for path in runs.iterdir() if (path / PLAN).exists())
    folder = RunFolder(open_writer(f"file://{runs / newest}"), newest)
    candidates = _summary(folder, SubtractOutput.STEP)
    swept = _summary(folder, BulkDeleteOutput.STEP)
    tables = list(_candidates(Virtual(rows, descending_time(newest).isoformat()), part_rows))
    with folder.writing(StepTry(folder.writer, candidates.step, candidates.try_number)):
        parts = [
            folder.write_table(candidates.step, index, table, "part-grown", grouped=True)
            for index, table in enumerate(tables)
        ]
    hashes = tuple(part for part in candidates.parts if "/part-" not in part.name)
    folder.write_summary(replace(candidates, parts=(*parts, *hashes)))
    _copy_as_dry(runs, newest)
    with folder.writing(StepTry(folder.writer, swept.step, swept.try_number)):
        settled = [_settle(folder, part, table) for part, table in zip(parts, tables, strict=True)]
    folder.write_summary(replace(swept, parts=tuple(settled)))


def _summary(folder: RunFolder, step: str) -> StepSummary:
    found = folder.read_summary(step)
    if found is None:
        raise SystemExit(f"{folder.uri} has no complete step {step}")
    return found


def _candidates(virtual: Virtual, part_rows: int) -> Iterator[pa.Table]:
    """Yield candidates in the order of a listing; one of 50 is held."""
    names = np.array(list(REASONS))
    modified = descending_time(virtual.slices[0][:6] + "0" * 14)
    for start in range(0, virtual.objects, part_rows):
        numbers = np.arange(start, min(start + part_rows, virtual.objects))
        addresses = pa.array(virtual.addresses(numbers))
        columns = [
            addresses,
            pa.array(sizes(numbers)),
            pa.repeat(
                pa.scalar(modified - timedelta(hours=start // part_rows), CANDIDATES.field(2).type),
                len(numbers),
            ),
            strings("", etags(numbers)),
            pa.array(hash64(addresses)),
            pa.repeat("STANDARD", len(numbers)),
            pa.array(names[numbers % len(names)]),
            pa.array(np.where(numbers % 50 == 0, _HELD, None)),
        ]
        yield pa.table(columns, schema=CANDIDATES)


def _settle(folder: RunFolder, part: PartInfo, table: pa.Table) -> PartInfo:
    """Return the ledger of a part: without held objects; one of 1,000 was missing, one failed, one became
    live again.
    """
    free = table.filter(table["hold"].is_null())
    at = np.arange(free.num_rows) % 1000
    outcomes = np.select(
        [at == 1, at == 2, at == 3], [ledger.MISSING, ledger.FAILED, ledger.KEPT], ledger.DELETED
    )
    codes = np.select([at == 2, at == 3], ["SlowDown", "staged"], None)
    messages = np.where(at == 2, "Please reduce your request rate.", None)
    rows = ledger.rows_of(free, outcomes.tolist(), 1, 1, code=codes.tolist(), message=messages.tolist())
    return ledger.settle_rows(folder, part, ledger.best(rows), _BY, 10).part


def _copy_as_dry(runs: Path, run_id: str) -> None:
    """Copy a run with candidates and without a ledger."""
    other = new_descending_xid(descending_time(run_id) - timedelta(hours=1))
    shutil.copytree(runs / run_id, runs / other)
    shutil.rmtree(runs / other / BulkDeleteOutput.STEP)
    (runs / other / "report.json").unlink(missing_ok=True)
    for path in (runs / other).glob(f"*/{SUCCESS}"):
        value = json.loads(path.read_text())
        value |= to_sealed(replace(from_json(StepSummary, value), run_id=other))
        path.write_text(json.dumps(value))
    plan = runs / other / PLAN
    value = json.loads(plan.read_text())
    value["run_id"], value["config"]["dry_run"] = other, True
    plan.write_text(json.dumps(value))
