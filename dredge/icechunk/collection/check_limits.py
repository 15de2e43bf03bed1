"""Steps check_limits and verify. check_limits runs the guards, with findings in `guard.json`; verify checks the absence
of deleted objects and the presence of live ones.

A canary is an object needed by refs. The mark decodes ids into numbers with its fast loop; here the other loop decodes
them into names. A canary among the candidates proves an error in a loop, and stops the run.
"""

import json
import random
from collections.abc import Collection, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from dredge.approve.records import GUARD, conclude
from dredge.errors import ConflictError, FormatError, LeaseHeldError
from dredge.icechunk.collection import outputs
from dredge.icechunk.collection.absent import PRESENT, check_absent
from dredge.icechunk.collection.index import read_listed
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.record import KNOWN, parse_known, read_known, replace_known
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.ids import encode_ids
from dredge.icechunk.repository import CHUNKS, MANIFESTS, OBJECT_FOLDERS, SNAPSHOTS, read_tips
from dredge.runs import ledger
from dredge.runs.limits import Finding, worst
from dredge.runs.payload import StepSummary, to_json
from dredge.runs.pending import store
from dredge.runs.run import Ahead, StepRecord
from dredge.sets.hashes import Hashes, contains, read_hashes
from dredge.storage import exists
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.deletions import Deletions, first_objects_max, read_deletions
from dredge.undo.ways import cost_of_undo

LOOKED_UP_MAX = 200
CANARY_TIPS = 32
MANIFESTS_PER_TIP = 4
REFS_PER_MANIFEST_MAX = 2_000_000
"""Maximum number of references in a manifest read for canaries."""


def sample_canaries(run: Run, refs_max: int = REFS_PER_MANIFEST_MAX) -> list[str]:
    """Return keys that refs need now: tips, some of their manifests, some of their chunks."""
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
    # Spec 1: without a read of the history, which is a request a snapshot. The re-check notices an upgrade.
    if run.plan.spec_version == 1 and run.plan.config.after is None:
        return set(read_tips(run.reader).values())
    return {ref.tip for ref in run.read_history().refs}


def _chunks(run: Run, key: str, data: bytes, rng: random.Random) -> list[str]:
    ids = parse_manifest(data, key).native_ids
    count = min(run.plan.config.safety.canary_chunks, len(ids))
    rows = sorted(rng.sample(range(len(ids)), count))
    return [CHUNKS + name for name in encode_ids(ids[rows]).to_pylist()]


def _find_canaries(run: Run) -> tuple[list[str], list[str]]:
    sample = sample_canaries(run)
    return sample, split_canaries(run, sample)[0]


def canaries_among(run: Run, keys: Collection[str], candidates: outputs.ListCandidatesOutput) -> list[str]:
    """Return the canaries among the candidates."""
    wanted = pa.array(sorted(keys), pa.string())
    found: list[str] = []
    for kind in OBJECT_FOLDERS:
        for table in run.folder.read_parts(candidates.candidates(kind), ["address"]):
            found += table.filter(pc.is_in(table["address"], wanted))["address"].to_pylist()
    return found


def split_canaries(run: Run, keys: Sequence[str], most: int = LOOKED_UP_MAX) -> tuple[list[str], list[str]]:
    """Look up at most `most` canaries in the store; return (existing, missing)."""
    chosen = random.Random(run.plan.run_id).sample(keys, min(most, len(keys)))
    there = list(ordered_map(lambda key: exists(run.reader, key), chosen))
    present = [key for key, is_there in zip(chosen, there, strict=True) if is_there]
    return present, [key for key, is_there in zip(chosen, there, strict=True) if not is_there]


def check_limits(run: Run) -> StepSummary:
    """Run all guards. Raises RefusedError: a guard refused the candidates, or they exceed a limit in a run that deletes
    without approval."""
    return run.step(outputs.CheckLimitsOutput, lambda record: _check_limits(run, record))


def _check_limits(run: Run, record: StepRecord) -> None:
    with at_once() as ask:
        deletions, canaries = ask(read_deletions, run.state), ask(_find_canaries, run)
        first = ask(first_objects_max, run.state, run.plan.undo.way, run.plan.run_id)
        leave_record(run, record)
        write_list(run, record)
    if unread := deletions.result().unread:
        record.warn(
            f"{len(unread):,} unreadable records of deletions were not compared with live objects:"
            f" {unread[max(unread)]}"
        )
    candidates = record.input(outputs.ListCandidatesOutput)
    objects, size_bytes = candidates.total("candidates_objects"), candidates.total("candidates_bytes")
    listed = candidates.total("listed_objects")
    if run.base is not None:  # an optimized run lists few chunks; the share is of all
        listed += run.base.state.chunk_objects - candidates.count("chunks", "listed_objects")
    limits = run.plan.config.limits
    if limits.objects is None:
        limits = replace(limits, objects=first.result())
    findings = [*_proofs(run, record, deletions.result(), *canaries.result()), _lease(run)]
    findings += limits.check(objects, size_bytes, listed)
    found = {
        "verdict": worst(findings),
        "findings": [to_json(finding) for finding in findings],
        "undo": to_json(cost_of_undo(run.plan.undo.way, objects, size_bytes)),
    }
    run.folder.publish_json(GUARD, {**found, "candidates_digest": candidates.digest})
    record.counts.update(deletable_objects=objects, deletable_bytes=size_bytes, listed_objects=listed)
    record.details.update(found)
    conclude(run, record, findings, excused=PRESENT)


def _proofs(
    run: Run, record: StepRecord, deletions: Deletions, sample: Sequence[str], present: Sequence[str]
) -> Iterator[Finding]:
    mark, candidates = record.input(outputs.MarkOutput), record.input(outputs.ListCandidatesOutput)
    for kind, (rows, counted) in candidates.written_and_counted.items():
        yield _must(f"{kind}_complete", rows == counted, rows, counted, "candidates were written and counted")
    live = mark.counts["live_snapshots"]
    yield _must("live_not_empty", live > 0, live, None, "snapshots are live")
    yield from check_absent(run, mark, candidates, deletions)
    yield _canaries(run, record, candidates, sample, present)


def _canaries(
    run: Run,
    record: StepRecord,
    candidates: outputs.ListCandidatesOutput,
    sample: Sequence[str],
    present: Sequence[str],
) -> Finding:
    data = json.dumps(present).encode()
    record.parts.append(
        run.folder.write_bytes(f"{outputs.CheckLimitsOutput.STEP}/{outputs.CANARIES}", data, len(present))
    )
    record.counts["canaries"] = len(sample)
    found = canaries_among(run, sample, candidates)
    example = f", such as {found[0]}" if found else ""
    text = f"of {len(sample):,} sampled objects that refs need are candidates{example}"
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
    """Replace the last mark's record with this run's record. Raises ConflictError: another run replaced the record
    after this run's mark; LeaseHeldError, OvertakenError: another run, or a later try of the step, has taken over."""
    mark = record.input(outputs.MarkOutput)
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


def write_list(run: Run, record: StepRecord) -> None:
    """Replace the pending list; raises as `leave_record`."""
    pending, etag = record.input(outputs.ListCandidatesOutput).pending_list
    if pending is None:
        return
    now = run.store_now()
    run.check_right(now)
    store.write_list(run.state, replace(pending, left_at=now), etag)


SAMPLE = 200
_LISTED = ("snapshots", "manifests")


def verify(run: Run) -> StepSummary:
    """Check that sampled deleted objects are absent, and live snapshots, live manifests and sampled chunks exist."""
    listed = Ahead(lambda _: [*ordered_map(partial(read_listed, run.reader), _LISTED, len(_LISTED))])
    return run.step(outputs.VerifyOutput, lambda record: _verify(run, record, listed), ahead=listed)


def _verify(run: Run, record: StepRecord, listed: Ahead[list[Hashes]]) -> None:
    with at_once() as ask:
        looks = [ask(lambda: [*_lost_canaries(run, record)]), ask(lambda: [*_still_there(run, record)])]
        found = zip(_LISTED, listed.result(record.inputs), strict=True)
        problems = [problem for kind, names in found for problem in _lost(run, record, kind, names)]
    problems += [problem for look in looks for problem in look.result()]
    if problems:
        record.status = "partial"
        record.error = FormatError(
            f"run {run.plan.run_id}: {'; '.join(problems)}. Read the ledger in {run.folder.uri} before you start a run"
            " that deletes."
        )


def _lost(run: Run, record: StepRecord, kind: str, names: Hashes) -> Iterator[str]:
    live = read_hashes(run.folder, record.input(outputs.MarkOutput).live(kind))
    record.counts[f"live_{kind}"] = len(live)
    if absent := int((~contains(names, live)).sum()):
        yield f"{absent} live {kind} are missing from the store"


def _lost_canaries(run: Run, record: StepRecord) -> Iterator[str]:
    sample = record.input(outputs.CheckLimitsOutput).read_canaries(run.folder)
    _, gone = split_canaries(run, sample)
    record.counts["canaries"] = len(sample)
    if gone:
        yield f"{len(gone)} objects that refs need disappeared after the guards ran, such as {gone[0]}"


def _still_there(run: Run, record: StepRecord) -> Iterator[str]:
    rng = random.Random(run.plan.run_id)
    keys: list[str] = []
    for table in run.folder.read_parts(record.input(outputs.BulkDeleteOutput).settled):
        deleted = table.filter(pc.equal(table["outcome"], ledger.DELETED))["address"].to_pylist()
        keys += rng.sample(deleted, min(SAMPLE, len(deleted)))
    keys = rng.sample(keys, min(SAMPLE, len(keys)))
    record.counts["deleted_sample"] = len(keys)
    there = ordered_map(lambda key: exists(run.reader, key), keys)
    left = [key for key, is_there in zip(keys, there, strict=True) if is_there]
    if left:
        yield f"{len(left)} deleted objects are still in the store, such as {left[0]}"
