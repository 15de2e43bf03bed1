"""Step check_limits: the guards of a run, with their findings in `guard.json`.

A flipped bit in a manifest can turn a chunk's id into another id. No object has the other id, and the true chunk looks
like garbage. So an absent live object stops the run: either it was lost earlier, or the true object is among the
candidates. The run asks the store for each absent chunk by name, and reports a few with their array and coordinates.

A canary is an object that refs need. The mark decodes manifests with its fast loop into numbers; here the other loop
decodes ids, which are compared as names. A canary among the candidates shows that one of the two is wrong: the run
stops.
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
from dredge.errors import ConflictError, FormatError, LeaseHeldError, RefusedError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.check_again import refuse_deleted, refuse_deleted_ids
from dredge.icechunk.collection.index import ManifestIndex, error_of_difference, read_manifest_rows
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.outputs import CANARIES, CheckLimitsOutput, ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.sets import Ids
from dredge.icechunk.collection.witness.record import KNOWN, parse_known, read_known, replace_known
from dredge.icechunk.format.manifests import NATIVE, ArrayRefs, parse_manifest
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import encode_ids, hashes_of
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, read_history, read_refs
from dredge.runs.limits import Finding, worst
from dredge.runs.payload import to_json
from dredge.runs.pending import store
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.storage import exists
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.deletions import first_objects_max, read_deletions
from dredge.undo.ways import cost_of_undo

MANIFESTS_READ_MAX = 20
TIPS_READ_MAX = 32
EXAMPLES = 10
PRESENT = ("chunks_present", "transactions_present")
"""Rules with only a warning in a dry run."""

_WHAT_TO_DO = (
    "They were lost earlier, or a damaged {file} has wrong ids and the true objects look unreachable: check the"
    " examples with Icechunk. {repair} Until then {option} collects all kinds but {kind}"
)

LOOKED_UP_MAX = 200
_AT_ONCE = 64
CANARY_TIPS = 32
MANIFESTS_PER_TIP = 4
REFS_PER_MANIFEST_MAX = 2_000_000
"""Manifests with more references are not read for canaries."""
GUARD = "guard.json"


@dataclass(frozen=True, slots=True)
class AbsentChunk:
    """A native chunk in a manifest without an object in the store."""

    key: str
    manifest: str
    node_id: str
    coordinates: tuple[int, ...]

    def text(self, paths: dict[str, str]) -> str:
        """Key, array and coordinates of the chunk."""
        where = ", ".join(map(str, self.coordinates))
        array = paths.get(self.node_id, f"node {self.node_id}")
        return f"{self.key} (chunk {where} of {array}, by {MANIFESTS}{self.manifest})"


def check_absent(run: Run, mark: MarkOutput, candidates: ListCandidatesOutput) -> Iterator[Finding]:
    """Check that live chunks and transaction logs exist.

    Yields:
        A finding for each rule of `PRESENT`. A refusal cannot be approved: the candidates may include the true objects.

    Raises:
        AlarmError: an earlier run had deleted one of the chunks; it was restored where possible.
        FormatError: a manifest differs from the index, or cannot be read any more.
    """
    refuse_deleted_ids(run, [*mark.virtual_chunks, *candidates.new_chunks, *candidates.outside])
    count, examples = candidates.counts["chunks_absent"], list[str]()
    if count:
        wanted = candidates.absent_chunks
        only_kept = _named_by_kept_only(run, mark, wanted)
        count, wanted = count - int(only_kept.sum()), wanted[~only_kept]
    if candidates.counts["chunks_absent"]:
        _, gone = _ask(run, _named_in_manifests(run, mark, candidates.absent_chunks))
        refuse_deleted(run, run.folder.label, [chunk.key for chunk in gone])
    if count:
        there, gone = _ask(run, _named_in_manifests(run, mark, wanted))
        count -= len(there)
        paths = _paths(run)
        examples = [chunk.text(paths) for chunk in gone[:EXAMPLES]]
    yield _finding(
        "chunks",
        count,
        run.plan.config.keep_chunks,
        examples,
        _WHAT_TO_DO.format(
            file="manifest",
            kind="chunks",
            option="keep_chunks (--keep-chunks)",
            repair="Write these chunks again or delete the arrays, and let the snapshots that need them expire.",
        ),
    )
    logs = candidates.counts["transactions_absent"]
    yield _finding(
        "transactions",
        logs,
        run.plan.config.keep_transactions,
        [],
        _WHAT_TO_DO.format(
            file="repo info",
            kind="transaction logs",
            option="keep_transactions (--keep-transactions)",
            repair="In the repo info they are logs of expired ancestors.",
        ),
    )


def _finding(kind: str, count: int, kept: bool, examples: list[str], what_to_do: str) -> Finding:
    rule = f"{kind}_present"
    named = "transaction logs" if kind == "transactions" else kind
    text = f"live {named} without an object in the store: {count:,}"
    if not count:
        return Finding(rule, "passed", count, 0, text)
    text += f", such as {'; '.join(examples)}" if examples else ""
    if kept:
        return Finding(rule, "passed", count, 0, f"{text}; this run deletes no {named}")
    return Finding(rule, "refused", count, 0, f"{text}. {what_to_do}")


def _named_by_kept_only(
    run: Run, mark: MarkOutput, wanted: Ids
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    # A missing chunk is no damage if only manifests of kept, unneeded snapshots have it (lost or unreferenced ones).
    by_kept, by_needed = np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.bool_)
    kept = set(json.loads(run.folder.read_bytes(mark.kept_manifests)))
    if not kept:
        return by_kept
    live = sets.read_ids(run.folder, mark.live("manifests"))
    for part in ManifestIndex.load(run.state).manifest_parts.values():
        try:
            rows = read_manifest_rows(run.state, part)
        except FormatError:
            return np.zeros(len(wanted), np.bool_)  # it may have one of them for a snapshot in use
        for manifest, chunks in rows:
            if manifest in kept:
                by_kept |= sets.contains(chunks.native, wanted)
            elif sets.contains(live, sets.of_names([manifest])).all():
                by_needed |= sets.contains(chunks.native, wanted)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = by_kept & ~by_needed
    return found


def _named_in_manifests(
    run: Run, mark: MarkOutput, wanted: Ids, most: int = MANIFESTS_READ_MAX
) -> Iterator[AbsentChunk]:
    # By a second read and another loop than the mark's.
    live = sets.read_ids(run.folder, mark.live("manifests"))
    for manifest, hashes in _indexed(run, live, wanted, most):
        key = MANIFESTS + manifest
        found = np.empty(0, np.uint64)
        for array in parse_manifest(run.reader.get(key), key).arrays:
            rows = _rows(array, wanted)
            found = np.concatenate([found, hashes_of(array.ids[rows])])
            for row, name in zip(rows.tolist(), encode_ids(array.ids[rows]).to_pylist(), strict=True):
                yield AbsentChunk(CHUNKS + name, manifest, array.node_id, tuple(array.coords[row].tolist()))
        if not np.isin(hashes, found).all():
            raise error_of_difference(f"{run.reader.uri}/{key}", run.state.uri)


def _indexed(run: Run, live: Ids, wanted: Ids, left: int = MANIFESTS_READ_MAX) -> Iterator[tuple[str, Ids]]:
    index = ManifestIndex.load(run.state)
    for part in index.manifest_parts.values():
        try:
            rows = read_manifest_rows(run.state, part)
        except FormatError:
            continue  # the mark read its manifests again
        for manifest, chunks in rows:
            if not sets.contains(live, sets.of_names([manifest])).all():
                continue
            hashes = wanted[sets.contains(chunks.native, wanted)]
            if len(hashes):
                yield manifest, hashes
                left -= 1
                if not left:
                    return


def _rows(array: ArrayRefs, wanted: Ids) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.flatnonzero((array.kind == NATIVE) & sets.contains(wanted, hashes_of(array.ids)))


def _ask(run: Run, chunks: Iterator[AbsentChunk]) -> tuple[set[str], list[AbsentChunk]]:
    there: set[str] = set()
    gone: dict[str, AbsentChunk] = {}
    for chunk in chunks:
        if chunk.key in there or chunk.key in gone:
            continue
        if exists(run.reader, chunk.key):
            there.add(chunk.key)
        else:
            gone[chunk.key] = chunk
    return there, list(gone.values())


def _paths(run: Run, most: int = TIPS_READ_MAX) -> dict[str, str]:
    found: dict[str, str] = {}
    for tip in sorted({ref.tip for ref in read_history(run.reader).refs})[:most]:
        key = SNAPSHOTS + tip
        found |= {node.id: node.path for node in parse_snapshot(run.reader.get(key), key, nodes=True).nodes}
    return found


def sample_canaries(run: Run, refs_max: int = REFS_PER_MANIFEST_MAX) -> list[str]:
    """Keys needed by refs now: tips, some of their manifests, some of their chunks."""
    rng = random.Random(run.plan.run_id)
    tips = sorted(_tips(run))
    keys = [SNAPSHOTS + tip for tip in rng.sample(tips, min(CANARY_TIPS, len(tips)))]
    chosen: list[str] = []
    for key, data in run.reader.get_many(list(keys)):
        used = parse_snapshot(data, key).manifests
        small = [MANIFESTS + info.id for info in used if info.refs <= refs_max]
        keys += [MANIFESTS + info.id for info in used]
        chosen += rng.sample(small, min(MANIFESTS_PER_TIP, len(small)))
    for key, data in run.reader.get_many(list(dict.fromkeys(chosen))):
        keys += _chunks(run, key, data, rng)
    return sorted(set(keys))


def _tips(run: Run) -> set[str]:
    # Spec 1: without a read of the history, which is a request a snapshot.
    if run.plan.spec_version == 1 and run.plan.config.after is None:
        return set(read_refs(run.reader).values())
    return {ref.tip for ref in run.read_history().refs}


def _chunks(run: Run, key: str, data: bytes, rng: random.Random) -> list[str]:
    ids = parse_manifest(data, key).native_ids
    count = min(run.plan.config.safety.canary_chunks, len(ids))
    rows = sorted(rng.sample(range(len(ids)), count))
    return [CHUNKS + name for name in encode_ids(ids[rows]).to_pylist()]


def _find_canaries(run: Run) -> tuple[list[str], list[str]]:
    sample = sample_canaries(run)
    return sample, split_canaries(run, sample)[0]


def canaries_among(run: Run, keys: Collection[str], candidates: ListCandidatesOutput) -> list[str]:
    """The canaries among the candidates."""
    wanted = pa.array(sorted(keys), pa.string())
    found: list[str] = []
    for kind in OBJECT_FOLDERS:
        for table in run.folder.read_parts(candidates.candidates(kind), ["address"]):
            found += table.filter(pc.is_in(table["address"], wanted))["address"].to_pylist()
    return found


def split_canaries(run: Run, keys: Sequence[str], most: int = LOOKED_UP_MAX) -> tuple[list[str], list[str]]:
    """Look up at most so many canaries in the store; return (existing, missing)."""
    chosen = random.Random(run.plan.run_id).sample(keys, min(most, len(keys)))
    there = list(ordered_map(lambda key: exists(run.reader, key), chosen, _AT_ONCE))
    present = [key for key, is_there in zip(chosen, there, strict=True) if is_there]
    return present, [key for key, is_there in zip(chosen, there, strict=True) if not is_there]


def check_limits(run: Run) -> StepSummary:
    """Check all guards.

    Raises:
        RefusedError: a guard refused the candidates; or they exceed a limit in a run that deletes without approval.
    """
    return run.step(CheckLimitsOutput, lambda record: _check_limits(run, record))


def _check_limits(run: Run, record: StepRecord) -> None:
    with at_once() as ask:
        deletions, canaries = ask(read_deletions, run.state), ask(_find_canaries, run)
        first = ask(first_objects_max, run.state, run.plan.undo.way, run.plan.run_id)
        leave_record(run, record)
        leave_list(run, record)
    if unread := deletions.result().unread:
        record.warn(
            f"{len(unread):,} records of deletions cannot be compared with live objects: {unread[max(unread)]}"
        )
    candidates = record.input(ListCandidatesOutput)
    objects, size_bytes = candidates.total("candidates_objects"), candidates.total("candidates_bytes")
    listed = candidates.total("listed_objects")
    if run.base is not None:  # an optimized run lists few chunks; the share is of all
        listed += run.base.state.chunk_objects - candidates.count("chunks", "listed_objects")
    limits = run.plan.config.limits
    if limits.objects is None:
        limits = replace(limits, objects=first.result())
    findings = [*_proofs(run, record, *canaries.result()), *limits.check(objects, size_bytes, listed)]
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
    # A run beyond its limits goes on to a question, where wanted. A dry run goes on despite limits and missing objects.
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
        f"{message} Read {run.folder.uri}/{GUARD}." + (f" {LET_IT} if you want this." if is_limit else "")
    )


def _proofs(run: Run, record: StepRecord, sample: Sequence[str], present: Sequence[str]) -> Iterator[Finding]:
    mark, candidates = record.input(MarkOutput), record.input(ListCandidatesOutput)
    for kind, (rows, counted) in candidates.written_and_counted.items():
        yield _must(f"{kind}_complete", rows == counted, rows, counted, "candidates were written and counted")
    live = mark.counts["live_snapshots"]
    yield _must("live_not_empty", live > 0, live, None, "snapshots are live")
    yield from check_absent(run, mark, candidates)
    yield _canaries(run, record, candidates, sample, present)
    yield _lease(run)


def _canaries(
    run: Run,
    record: StepRecord,
    candidates: ListCandidatesOutput,
    sample: Sequence[str],
    present: Sequence[str],
) -> Finding:
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
    """Replace the record of the last mark with this run's record.

    Raises:
        ConflictError: another run has replaced it since this run's mark.
        LeaseHeldError: another run has taken over.
        OvertakenError: a later try of the step has begun.
    """
    mark = record.input(MarkOutput)
    if mark.known is None:
        return
    known, now = parse_known(run.folder.read_bytes(mark.known)), run.store_now()
    run.check_right(now)
    if replace_known(run.state, known, mark.known_etag, now):
        return
    found, _ = read_known(run.state)
    if replace(found, written_at=None) != known:
        raise ConflictError(
            f"another run changed {run.state.uri}/{KNOWN} after the mark of run {run.plan.run_id}. Nothing was deleted."
            " Start a new run."
        )


def leave_list(run: Run, record: StepRecord) -> None:
    """Replace the pending list.

    Raises:
        ConflictError: another run has replaced it.
        OvertakenError: a later try of the step has begun.
    """
    pending, etag = record.input(ListCandidatesOutput).pending_list
    if pending is None:
        return
    now = run.store_now()
    run.check_right(now)
    store.leave_list(run.state, replace(pending, left_at=now), etag)
