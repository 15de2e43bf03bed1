"""Settle: after a sweep, one row an object says what became of it, and the figures follow from these rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError
from dredge.gc.run import Run
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.partial import not_deleted
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, round_robin

_SAMPLES = 20


def settle(
    run: Run, runner: TaskRunner, record: StepRecord, parts: Sequence[PartInfo], complete: bool
) -> None:
    """Settle the ledger of a sweep, and note its figures.

    Args:
        run: of the run.
        runner: spreads the work.
        record: of the sweep.
        parts: of the candidates.
        complete: whether the sweep went through all of them, so that every object must have an outcome.

    Raises:
        FormatError: the ledger does not fit the candidates.
    """
    hands = round_robin([part.to_json() for part in parts], run.num_tasks(runner, len(parts)))
    tasks = [{"parts": hand} for hand in hands]
    results = run.spread_json(runner, ledger.STEP, settle_parts, {}, tasks, "parts", len(parts))
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    failures: list[Json] = []
    for result in results:
        record.parts.extend(PartInfo.from_json(part) for part in result["parts"])
        failures.extend(result["failures"])
        for group in result["groups"]:
            figures = groups[(group["reason"], group["outcome"], group["code"] or "")]
            figures[0] += group["objects"]
            figures[1] += group["bytes"]
    totals = Counter(dict.fromkeys(ledger.OUTCOMES, 0))
    for (_, outcome, _), figures in groups.items():
        totals[outcome] += figures[0]
        if outcome == ledger.DELETED:
            record.add(deleted_bytes=figures[1])
    candidates = record.inputs["subtract"].counts["candidates_objects"]
    record.add(deleted_bytes=0, undone_objects=candidates - totals.total())
    record.counts.update({f"{outcome}_objects": count for outcome, count in totals.items()})
    record.details["groups"] = [
        {"reason": key[0], "outcome": key[1], "code": key[2], "objects": figures[0], "bytes": figures[1]}
        for key, figures in sorted(groups.items())
    ]
    record.details["failures"] = failures[:_SAMPLES]
    if complete and totals.total() != candidates:
        raise FormatError(
            f"run {run.plan.run_id}: the ledger tells of {totals.total():,} objects, there were"
            f" {candidates:,} candidates. Run the step again; it goes on where it stopped."
        )
    if totals[ledger.NOT_ADDRESSABLE]:
        record.warn(
            f"{totals[ledger.NOT_ADDRESSABLE]:,} objects have names that this store cannot delete exactly;"
            " kept"
        )
    if totals[ledger.FAILED]:
        record.status = "partial"
        record.error = _failure(run, totals, failures)


def _failure(run: Run, totals: Counter[str], samples: Sequence[Json]) -> DredgeError:
    codes = {str(sample["code"]) for sample in samples}
    text = (
        f"run {run.plan.run_id}: {totals[ledger.FAILED]:,} objects could not be deleted"
        f" ({', '.join(sorted(codes))}), such as {samples[0]['address']!r}; {totals[ledger.DELETED]:,} were."
    )
    return not_deleted(text, codes, totals[ledger.DELETED])


def settle_parts(config: Json, task: Json) -> Json:
    """Write the ledger of some parts with one row an object. A partition function.

    Args:
        config: doors.
        task: `parts` of the candidates.

    Returns:
        `parts` of the ledger, `groups` (objects and bytes by reason, outcome and code), `failures` (a few).
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    written, groups, failures = [], [], []
    for part in (PartInfo.from_json(value) for value in task["parts"]):
        name = stem_of(part)
        rows = ledger.best(ledger.read_raw(folder, name))
        candidates = folder.read_part(part, ["address"])["address"].combine_chunks()
        if not pc.all(pc.is_in(rows["address"], candidates), min_count=0).as_py():
            raise FormatError(
                f"the ledger of {part.name} names objects that were no candidates. Start a new run."
            )
        written.append(ledger.write_settled(folder, name, rows).to_json())
        keys = ["reason", "outcome", "code"]
        for group in rows.group_by(keys).aggregate([("size", "count"), ("size", "sum")]).to_pylist():
            figures = {"objects": group["size_count"], "bytes": group["size_sum"]}
            groups.append({key: group[key] for key in keys} | figures)
        failed = rows.filter(pc.equal(rows["outcome"], ledger.FAILED)).slice(0, _SAMPLES)
        failures.extend(failed.select(["address", "code", "message"]).to_pylist())
    return {"parts": written, "groups": groups, "failures": failures}


def stem_of(part: PartInfo) -> str:
    """What a part of the candidates is called in the ledger."""
    return part.name.rpartition("/")[2].removesuffix(".parquet")
