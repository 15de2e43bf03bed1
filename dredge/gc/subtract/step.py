"""Subtract: what is listed, or known from an earlier run, and nothing live names. Reads numbers for the many,
rows for the few.

    candidates = { listed or known : hash not in live, in the store, older than the cutoff }

A row carries the reason why it is garbage, as far as anything tells, and whether it is *suspect*: it is as
long as some entry of a branch head. The server says nothing of an object that was uploaded again over an equal
one, although the branch then reads the new copy; a suspect is therefore looked into before it may be deleted
(`identical`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.sets.live import LiveSet
from dredge.gc.subtract import earlier_runs as known
from dredge.gc.subtract import reasons
from dredge.gc.subtract.classify import STEP, Judge, Written, write_candidates
from dredge.gc.subtract.drift import find_drift
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, round_robin


def subtract(run: Run, runner: TaskRunner) -> StepSummary:
    """Write the listed objects that nothing live names, each with a reason."""
    return run.step_by_name(
        STEP,
        ["slice_listing", "mark_uncommitted", "list_committed"],
        lambda record: _subtract(run, runner, record),
    )


def _subtract(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    tuning = run.plan.config.tuning
    committed = record.inputs["list_committed"]
    parts = record.inputs["slice_listing"].parts_below("slice_listing/part-")
    expired = record.input(ListCommittedOutput).expired
    # Where everything that any branch has staged was read and is live, nobody is suspect.
    exact = record.inputs["mark_uncommitted"].details.get("kv", {}).get("exact", False)
    config = {
        "live": committed.details["live"],
        "sizes": [] if exact else committed.details["sizes"],
        "expired": expired.to_json(),
        "candidate_rows": tuning.candidate_rows,
        "threads": tuning.threads,
        "cutoff": run.plan.cutoff.isoformat(),
    }
    hands = round_robin([part.to_json() for part in parts], run.num_tasks(runner, len(parts)))
    tasks = [{"name": f"{index:05d}", "parts": hand} for index, hand in enumerate(hands)]
    rows = sum(part.rows for part in parts)
    results = run.spread_json(runner, STEP, subtract_parts, config, tasks, "objects", rows)
    totals: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)
    _take(record, results, totals, examples)
    if totals["rows"] != rows:
        raise FormatError(f"{totals['rows']} rows were compared, {rows} were listed. Nothing was deleted.")
    live_objects = rows - totals["objects"]
    live_bytes = record.inputs["slice_listing"].counts["old_bytes"] - totals["bytes"]
    _take(record, known.look_into(run, runner, record, config), totals, examples)
    record.counts.update(
        listed_objects=rows,
        live_objects=live_objects,
        live_bytes=live_bytes,
        known_objects=totals["known"],
        gone_objects=totals["gone"],
        young_objects=totals["young"],
        candidates_objects=totals["objects"],
        candidates_bytes=totals["bytes"],
        suspects=totals["suspects"],
        suspects_bytes=totals["suspects_bytes"],
        unreadable=totals["unreadable"],
    )
    record.details["reasons"] = {
        reason: {
            "objects": totals[f"{reason}_objects"],
            "bytes": totals[f"{reason}_bytes"],
            "examples": examples[reason][: reasons.EXAMPLES],
        }
        for reason in reasons.REASONS
        if totals[f"{reason}_objects"]
    }
    record.details["drift"] = find_drift(run, record)


def _take(
    record: StepRecord, results: list[Json], totals: Counter[str], examples: dict[str, list[str]]
) -> None:
    for result in results:
        totals.update(result["counts"])
        record.parts.extend(PartInfo.from_json(part) for part in result["parts"])
        for reason, addresses in result["examples"].items():
            examples[reason].extend(addresses)


def subtract_parts(config: Json, task: Json) -> Json:
    """Compare some parts of the listing with the live set. A partition function.

    Args:
        config: doors, `live`, what a `Judge` needs, `candidate_rows`, `progress`.
        task: `name` and `parts`.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    parts = [PartInfo.from_json(part) for part in task["parts"]]
    hashes = [folder.read_part(part, ["hash"])["hash"].to_numpy() for part in parts]
    live = LiveSet.from_json(config["live"]).find(hashes)
    judge = Judge.of(folder, config)
    tables = _chunks(folder, parts, live, config["candidate_rows"], progress)
    written = Written(counts=Counter(rows=sum(map(len, hashes))))
    write_candidates(folder, judge, tables, task["name"], written)
    return written.to_json()


def _chunks(
    folder: RunFolder,
    parts: list[PartInfo],
    live: list[npt.NDArray[np.bool_]],
    rows_max: int,
    progress: Progress,
) -> Iterator[pa.Table]:
    """The rows that are not live, in tables of bounded length."""
    waiting: list[pa.Table] = []
    count = 0
    for part, answer in zip(parts, live, strict=True):
        progress.add(part.rows)
        if answer.all():
            continue
        rows = folder.read_part(part).filter(pa.array(~answer))
        waiting.append(rows)
        count += rows.num_rows
        while count >= rows_max:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, rows_max).combine_chunks()
            waiting, count = [whole.slice(rows_max)], count - rows_max
    if count:
        yield pa.concat_tables(waiting).combine_chunks()
