"""Canaries: objects that refs surely need, found by another way than the mark's.

The mark decodes manifests with its fast loop into numbers; here the other loop gives ids, which are spelled
out and compared as names. A canary among the candidates means that one of the two is wrong: the run stops.

Check limits: every guard is asked; `guard.json` says what each found.

Leave what a complete mark knew for the next one, under the lease.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.approve.output import LET_IT
from dredge.approve.settings import NEVER
from dredge.errors import ConflictError, LeaseHeldError, RefusedError
from dredge.icechunk.collection.absent import PRESENT, check_absent
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.outputs import CANARIES, CheckLimitsOutput, ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.record import (
    KNOWN,
    parse_known,
    read_known,
    replace_known,
)
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import ID_BYTES, encode_ids
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, read_refs
from dredge.runs.limits import Finding, worst
from dredge.runs.payload import to_json
from dredge.runs.pending import store
from dredge.runs.perform import StepRecord
from dredge.runs.summary import StepSummary
from dredge.storage import exists
from dredge.storage.parallel import ordered_map
from dredge.undo.deletions import first_objects_max, read_deletions
from dredge.undo.ways import cost_of_undo

LOOKED_UP_MAX = 200
_AT_ONCE = 64
_NO_IDS = np.empty((0, ID_BYTES), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is read for a sample.

    Attributes:
        refs: tips of refs.
        manifests: of a tip.
        refs_per_manifest: manifests with more references are not read.
    """

    refs: int = 32
    manifests: int = 4
    refs_per_manifest: int = 2_000_000


_SIZES = Sizes()


def sample_canaries(run: Run, sizes: Sizes = _SIZES) -> list[str]:
    """Give keys that the refs need now: tips, some of their manifests, some of their chunks."""
    rng = random.Random(run.plan.run_id)
    tips = sorted(_tips(run))
    keys = [SNAPSHOTS + tip for tip in rng.sample(tips, min(sizes.refs, len(tips)))]
    chosen: list[str] = []
    for key, data in run.reader.get_many(list(keys)):
        used = parse_snapshot(data, key).manifests
        small = [MANIFESTS + info.id for info in used if info.refs <= sizes.refs_per_manifest]
        keys += [MANIFESTS + info.id for info in used]
        chosen += rng.sample(small, min(sizes.manifests, len(small)))
    for key, data in run.reader.get_many(list(dict.fromkeys(chosen))):
        keys += _chunks(run, key, data, rng)
    return sorted(set(keys))


def _tips(run: Run) -> set[str]:
    """Give the tips of the refs as of now. Spec 1 says them without the history, which is a request a snapshot."""
    if run.plan.spec_version == 1 and run.plan.config.after is None:
        return set(read_refs(run.reader).values())
    return {ref.tip for ref in run.read_history().refs}


def _chunks(run: Run, key: str, data: bytes, rng: random.Random) -> list[str]:
    arrays = parse_manifest(data, key).arrays
    ids = np.concatenate([_NO_IDS, *(array.ids[array.kind == NATIVE] for array in arrays)])
    count = min(run.plan.config.safety.canary_chunks, len(ids))
    rows = sorted(rng.sample(range(len(ids)), count))
    return [CHUNKS + name for name in encode_ids(ids[rows]).to_pylist()]


def canaries_among(run: Run, keys: Collection[str], candidates: ListCandidatesOutput) -> list[str]:
    """Give the canaries that are candidates."""
    wanted = pa.array(sorted(keys), pa.string())
    found: list[str] = []
    for kind in OBJECT_FOLDERS:
        for table in run.folder.read_parts(candidates.candidates(kind), ["address"]):
            found += table.filter(pc.is_in(table["address"], wanted))["address"].to_pylist()
    return found


def split_canaries(run: Run, keys: Sequence[str], most: int = LOOKED_UP_MAX) -> tuple[list[str], list[str]]:
    """Look some canaries up, at most so many: those that are in the store, and those that are not."""
    chosen = random.Random(run.plan.run_id).sample(keys, min(most, len(keys)))
    there = list(ordered_map(lambda key: exists(run.reader, key), chosen, _AT_ONCE))
    present = [key for key, is_there in zip(chosen, there, strict=True) if is_there]
    return present, [key for key, is_there in zip(chosen, there, strict=True) if not is_there]


GUARD = "guard.json"


def check_limits(run: Run) -> StepSummary:
    """Ask every guard whether the candidates may be deleted.

    Raises:
        RefusedError: a guard said no, or a limit is exceeded, the run would delete, and nobody is to be asked.
    """
    return run.step(CheckLimitsOutput, lambda record: _check_limits(run, record))


def _check_limits(run: Run, record: StepRecord) -> None:
    leave_record(run, record)
    leave_list(run, record)
    if unread := read_deletions(run.state).unread:
        record.warn(
            f"{len(unread):,} records of what runs deleted cannot be compared with what is live:"
            f" {unread[max(unread)]}"
        )
    candidates = record.input(ListCandidatesOutput)
    objects, size_bytes = candidates.total("candidates_objects"), candidates.total("candidates_bytes")
    listed = candidates.total("listed_objects")
    if run.base is not None:  # it looked at few of the chunks; a share is one of all
        listed += run.base.state.chunk_objects - candidates.count("chunks", "listed_objects")
    limits = run.plan.config.limits
    if limits.objects is None:
        limits = replace(limits, objects=first_objects_max(run.state, run.plan.undo.way, run.plan.run_id))
    findings = [*_proofs(run, record), *limits.check(objects, size_bytes, listed)]
    found = {
        "verdict": worst(findings),
        "findings": [to_json(finding) for finding in findings],
        "undo": to_json(cost_of_undo(run.plan.undo.way, objects, size_bytes)),
    }
    run.folder.publish_json(GUARD, {**found, "candidates_digest": candidates.digest})
    record.counts.update(deletable_objects=objects, deletable_bytes=size_bytes, listed_objects=listed)
    record.details.update(found)
    _conclude(run, record, findings)


def _conclude(run: Run, record: StepRecord, findings: Sequence[Finding]) -> None:
    """Let the run go on, or not. One beyond its limits goes on to ask a person, where that is wanted; a dry run goes on
    where only a limit, or something that is missing, is in the way."""
    verdict, config = worst(findings), run.plan.config
    if verdict == "passed":
        return
    bad = [item for item in findings if item.verdict == verdict]
    message = f"run {run.plan.run_id}: {'; '.join(f'{item.rule}: {item.text}' for item in bad)}. Nothing was deleted."
    is_limit = verdict == "awaiting_approval"
    if is_limit and config.approval != NEVER and not config.dry_run:
        return
    if config.dry_run and (is_limit or all(item.rule in PRESENT for item in bad)):
        would = "await approval" if is_limit and config.approval != NEVER else "be refused"
        record.warn(f"a run that deletes would {would}: {message}")
        return
    record.status = "refused"
    record.error = RefusedError(
        f"{message} Read {run.folder.uri}/{GUARD}."
        + (f" {LET_IT} if this is what you want." if is_limit else "")
    )


def _proofs(run: Run, record: StepRecord) -> Iterator[Finding]:
    mark, candidates = record.input(MarkOutput), record.input(ListCandidatesOutput)
    for kind, (rows, counted) in candidates.written_and_counted.items():
        yield _must(f"{kind}_complete", rows == counted, rows, counted, "candidates were written and counted")
    live = mark.counts["live_snapshots"]
    yield _must("live_not_empty", live > 0, live, None, "snapshots are live")
    yield from check_absent(run, mark, candidates)
    yield _canaries(run, record, candidates)
    yield _lease(run)


def _canaries(run: Run, record: StepRecord, candidates: ListCandidatesOutput) -> Finding:
    """Look for canaries among the candidates, and keep those that are in the store for the end of the run."""
    sample = sample_canaries(run)
    present, _ = split_canaries(run, sample)
    data = json.dumps(present).encode()
    record.parts.append(run.folder.write_bytes(f"{CheckLimitsOutput.STEP}/{CANARIES}", data, len(present)))
    record.counts["canaries"] = len(sample)
    found = canaries_among(run, sample, candidates)
    example = f", such as {found[0]}" if found else ""
    text = f"of {len(sample):,} objects that refs need are candidates{example}"
    return _must("canaries", not found, len(found), 0, text)


def _lease(run: Run) -> Finding:
    number = run.plan.lease.fencing
    try:
        run.lease.check(run.plan.lease, run.store_now())
    except LeaseHeldError as error:
        return Finding("lease_held", "refused", number, None, str(error))
    return Finding("lease_held", "passed", number, None, "is this run's lease")


def _must(
    rule: str, holds: bool, figure: float | int | str, limit: float | int | str | None, text: str
) -> Finding:
    return Finding(rule, "passed" if holds else "refused", figure, limit, f"{figure} {text}")


def leave_record(run: Run, record: StepRecord) -> None:
    """Replace what the last mark left, unless another run did so since this one's mark.

    Raises:
        ConflictError: another run has left its record since.
        LeaseHeldError: another run has taken over.
        OvertakenError: a later try was begun.
    """
    mark = record.input(MarkOutput)
    if mark.known is None:
        return
    known = parse_known(run.folder.read_bytes(mark.known))
    record.attempt.check()
    run.lease.check(run.plan.lease)
    if replace_known(run.state, known, mark.known_etag):
        return
    found, _ = read_known(run.state)
    if replace(found, written_at=None) != known:
        raise ConflictError(
            f"{run.state.uri}/{KNOWN} was changed by another run since the mark of run {run.plan.run_id}. Nothing was"
            " deleted. Start a new run."
        )


def leave_list(run: Run, record: StepRecord) -> None:
    """Leave the list after a complete mark.

    Raises:
        ConflictError: another run has left its list since.
        OvertakenError: a later try of the step was begun.
    """
    pending, etag = record.input(ListCandidatesOutput).pending_list
    if pending is None:
        return
    now = run.store_now()
    record.attempt.check()
    run.lease.check(run.plan.lease, now)
    store.leave_list(run.state, replace(pending, left_at=now), etag)
