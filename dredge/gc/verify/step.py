"""Verify: what was deleted is gone, and what lives is still there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import Canary, sample
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.gc.sets.hashes import Hashes, contains, unite
from dredge.gc.verify.output import VerifyOutput
from dredge.hashing import hash64
from dredge.runs import ledger
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner, round_robin
from dredge.storage import ObjectReader

log = logging.getLogger("dredge")

VERIFY = "verify.json"
_STAGED_SAMPLE = 200
_SAMPLES = 20


def verify(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """List what was touched again, and look at a sample of what lives.

    Args:
        run: this run.
        runner: spreads the listing; None does it in this process.

    Raises:
        FormatError: something that was reported deleted is still there, or something that lives is gone.
    """
    return run.step(VerifyOutput, lambda record: _verify(run, runner or LocalRunner(), record))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyConfig:
    """What all tasks need.

    Attributes:
        threads: how many objects a task looks for at once.
    """

    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTask:
    """One task.

    Attributes:
        settled: parts of the ledger.
    """

    settled: list[PartInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What a task found.

    Attributes:
        checked: objects that it looked for.
        still_there: how many of them the store has.
        left: addresses of some of these.
    """

    checked: int
    still_there: int
    left: list[str]


def _verify(run: Run, runner: TaskRunner, record: StepRecord) -> None:
    parts = record.input(BulkDeleteOutput).settled
    tasks = [VerifyTask(settled=share) for share in round_robin(parts, run.num_tasks(runner, len(parts)))]
    config = VerifyConfig(threads=run.plan.config.tuning.threads)
    rows = sum(part.rows for part in parts)
    results = run.spread(runner, VerifyOutput.STEP, verify_parts, config, tasks, "objects", rows)
    left = [address for result in results for address in result.left]
    living = sample(run, VerifyOutput.STEP) + _staged(run, record.input(MarkUncommittedOutput))
    missing = _missing(run, living)
    ours = _deleted_by_us(run, missing, parts)
    record.counts.update(
        checked_objects=sum(result.checked for result in results),
        still_there_objects=sum(result.still_there for result in results),
        living_objects_looked_at=len(living),
        living_objects_missing=len(missing),
        living_objects_deleted=len(ours),
    )
    run.folder.publish_json(
        VERIFY,
        {
            **record.counts,
            "still_there": left[:_SAMPLES],
            "living_missing": [_words(canary) for canary in missing[:_SAMPLES]],
            "living_deleted": [_words(canary) for canary in ours[:_SAMPLES]],
        },
    )
    if ours:
        raise FormatError(
            f"run {run.plan.run_id} DELETED OBJECTS THAT LIVE: {len(ours)} of a sample of"
            f" {len(living)}, such as {_words(ours[0])}. Start no further run. Restore them (an older"
            f" version of the bucket, a backup; the ledger in {run.folder.uri} names every object) and"
            " report this."
        )
    if record.counts["still_there_objects"]:
        raise FormatError(
            f"{record.counts['still_there_objects']:,} objects were reported deleted and are still listed,"
            f" such as {left[0]!r}. Nothing that lives was lost. Look at the store; then start a new run."
        )
    if missing:
        record.warn(
            f"{len(missing)} of {len(living)} sampled objects that branches show are not in the store, such"
            f" as {_words(missing[0])}; this run did not delete them"
        )


@partition_function
def verify_parts(run: WorkerRun, config: VerifyConfig, task: VerifyTask) -> VerifyResult:
    """Look for deleted objects, by listing the folders they lay in where that costs less."""
    reader = run.open_store()
    checked = still_there_count = 0
    left: list[str] = []
    for part in task.settled:
        rows = run.folder.read_part(part, ["address", "outcome"])
        gone = rows.filter(pc.is_in(rows["outcome"], pa.array([ledger.DELETED, ledger.MISSING])))["address"]
        found = still_there(reader, gone.combine_chunks(), config.threads)
        checked += len(gone)
        still_there_count += len(found)
        left.extend(found[:_SAMPLES])
        run.progress.add(part.rows)
    return VerifyResult(checked=checked, still_there=still_there_count, left=left[:_SAMPLES])


def still_there(reader: ObjectReader, gone: pa.Array, threads: int) -> list[str]:
    """Those of some addresses that the store has."""
    names = sorted(set(gone.to_pylist()))
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        if not reader.is_remote:
            lacks = pool.map(lambda name: _lacks(reader, name), names)
            return [name for name, lacking in zip(names, lacks, strict=True) if not lacking]
        hashes = unite([hash64(gone)])
        wanted = set(names)
        found = pool.map(lambda bounds: _hits(reader, bounds, hashes, wanted), _folders(names))
        return [address for hits in found for address in hits]


def _lacks(reader: ObjectReader, address: str) -> bool:
    try:
        reader.stat(address)
    except NotFoundError:
        return True
    return False


def _folders(names: list[str]) -> Iterator[tuple[str, str, str]]:
    """Folder directly below `data/`, first and last of the names in it; "" for names without a folder."""
    bounds: dict[str, tuple[str, str]] = {}
    for name in names:
        head, slash, _ = name.removeprefix(DATA).partition("/")
        folder = f"{DATA}{head}/" if slash else ""
        bounds[folder] = (bounds[folder][0] if folder in bounds else name, name)
    for folder, (first, last) in bounds.items():
        yield folder, first, last


def _hits(reader: ObjectReader, bounds: tuple[str, str, str], hashes: Hashes, names: set[str]) -> list[str]:
    folder, first, last = bounds
    if not folder:
        return [info.key for info in reader.list_level(DATA).objects if info.key in names]
    hits: list[str] = []
    # The first name itself must be listed too, so the listing starts after what is one character shorter.
    for batch in reader.list(folder, first[:-1], last + "\0"):
        keys = batch["key"]
        hit = contains(hashes, hash64(keys))
        if hit.any():
            hits.extend(key for key in keys.filter(pa.array(hit)).to_pylist() if key in names)
    return hits


def _staged(run: Run, staged: MarkUncommittedOutput) -> list[Canary]:
    """Some of the staged addresses of the mark: those that a re-check or a reset may have let go are told
    apart later."""
    found: list[Canary] = []
    parts = staged.addresses
    for part in parts:
        rows = run.folder.read_part(part)
        step = max(1, rows.num_rows * len(parts) // _STAGED_SAMPLE)
        found.extend(Canary(address, "", "") for address in rows["address"].to_pylist()[::step])
    return found[:_STAGED_SAMPLE]


def _missing(run: Run, living: list[Canary]) -> list[Canary]:
    with ThreadPoolExecutor(run.plan.config.tuning.threads, thread_name_prefix="stat") as pool:
        lacks = pool.map(lambda canary: _lacks(run.reader, canary.address), living)
        return [canary for canary, lacking in zip(living, lacks, strict=True) if lacking]


def _deleted_by_us(run: Run, missing: list[Canary], parts: list[PartInfo]) -> list[Canary]:
    """Those of the missing that this run's ledger names as deleted."""
    if not missing:
        return []
    wanted = pa.array({canary.address for canary in missing}, pa.string())
    deleted: set[str] = set()
    for part in parts:
        rows = run.folder.read_part(part, ["address", "outcome"])
        mask = pc.and_(pc.is_in(rows["address"], wanted), pc.equal(rows["outcome"], ledger.DELETED))
        deleted.update(rows["address"].filter(mask).to_pylist())
    return [canary for canary in missing if canary.address in deleted]


def _words(canary: Canary) -> str:
    if not canary.branch:
        return f"{canary.address!r} (staged)"
    return f"{canary.address!r} ({canary.path!r} on {canary.branch})"
