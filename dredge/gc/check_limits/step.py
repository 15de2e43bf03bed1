"""Check limits: ask every guard, apply the limits, and write `guard.json`.

A refused guard stops a run of any mode. A run beyond its limits asks a person (`dredge.approve`), or is refused where
no person is to be asked; a dry run warns. Held objects stay in any case.
"""

from concurrent.futures import Future
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from dredge.approve.records import GUARD, conclude
from dredge.gc.check_again.check import check_again, find_again, read_earlier
from dredge.gc.check_limits import canaries, identical
from dredge.gc.check_limits.canaries import Canary
from dredge.gc.check_limits.guards import Check, ask_guards
from dredge.gc.check_limits.holds import (
    UNSETTLED,
    WAITING,
    WHY,
    CheckLimitsOutput,
    HoldFiles,
    Holds,
    count_ambiguous,
    count_held,
    why_held,
)
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.pending.advance import advance_list, write_new_list
from dredge.gc.run import Run
from dredge.gc.state import base_of
from dredge.gc.subtract import SubtractOutput
from dredge.gc.witness.owner import Owner, Site, claim_namespace, leave_id, read_environment_and_owner
from dredge.gc.witness.record import leave_record
from dredge.hashing import hash64
from dredge.lakefs import Environment
from dredge.runs.limits import Figures, Finding, Limits, worst
from dredge.runs.payload import StepSummary, to_json
from dredge.runs.run import Ahead, StepRecord
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.sets.hashes import unite, write_hashes
from dredge.storage.parallel import at_once
from dredge.undo.deletions import first_objects_max
from dredge.undo.ways import cost_of_undo


def check_limits(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Check the candidates of a run. Raises AlarmError: an earlier run deleted live objects; RefusedError: a guard
    refused, or a limit is exceeded and no person is to be asked."""

    owner = Ahead(lambda _: read_environment_and_owner(Site.of_run(run)))

    def check(record: StepRecord) -> None:
        candidates = record.input(SubtractOutput).counts["candidates_objects"]
        begun = run.begun(CheckLimitsOutput.STEP) if candidates else None
        with at_once() as ask:  # canaries need no results of this step
            sample = begun or ask(lambda: _sample(run, record) if candidates else [])
            _check(run, runner or LocalRunner(), record, owner, sample)

    return run.step(CheckLimitsOutput, check, ahead=owner)


def _sample(run: Run, record: StepRecord) -> list[Canary]:
    heads = run.folder.read_part(record.input(ListCommittedOutput).branches)
    known = zip(heads["commit_id"].to_pylist(), heads["metarange_id"].to_pylist(), strict=True)
    return canaries.sample(run, CheckLimitsOutput.STEP, metaranges=dict(known))


def _check(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    owner: Ahead[tuple[Environment, Owner | None]],
    sample: Future[list[Canary]],
) -> None:
    committed = record.input(ListCommittedOutput)
    with at_once() as ask:
        claimed = ask(lambda: claim_namespace(run, owner.result(record.inputs)))
        record.attempt.check()  # files of an overtaken try would be newer than those of the later one
    leaves = claimed.result() and not committed.is_what_if
    with at_once() as ask:  # the mark is complete
        left = [ask(leave_record, run, committed), ask(leave_id, run, record)] if leaves else []
        earlier = ask(read_earlier, run)
        check = _prove(run, runner, record, leaves, sample)
        past = earlier.result()
        found = None if past is None else find_again(run, runner, record, past)
    for item in left:
        item.result()
    with at_once() as ask:
        new, known = check.pending, check.known
        listed = ask(write_new_list, run, record, known, new) if leaves else None
        if listed is not None and found is not None and found.hits:
            listed.result()  # restored and reported only after the list
        alarm = None if past is None or found is None else check_again(run, record, past.checked, found)
        findings = ask_guards(check)
    if listed is not None:
        listed.result()
    _hold_ambiguous(check)
    objects = check.candidates.counts["candidates_objects"] - check.tally.objects
    size_bytes = check.candidates.counts["candidates_bytes"] - check.tally.size_bytes
    findings.extend(_limits(check, objects, size_bytes))
    verdict = worst(findings)
    details = {
        "verdict": verdict,
        "findings": [to_json(finding) for finding in findings],
        "held": check.tally.to_details(),
        "would_delete": _would_delete(check),
        "undo": to_json(cost_of_undo(run.plan.undo.way, objects, size_bytes)),
        "waits": run.plan.config.waits,
        "pending": check.pending.waits.to_details(check.known.grace),
    }
    shown = sorted(check.proof.answers.shown.items())
    served = [{"address": address, "branch": branch, "path": path} for address, (branch, path) in shown]
    digest = check.candidates.digest
    run.folder.publish_json(GUARD, {**details, "candidates_digest": digest, "identical_live": served})
    record.counts.update(deletable_objects=objects, deletable_bytes=size_bytes, **_held_counts(check))
    record.details.update(details)
    if check.tally.objects_of(*UNSETTLED):
        record.warn(_how_to_free(check))
    if alarm is not None:
        record.status, record.error = "alarm", alarm
        return
    conclude(run, record, findings)


def _prove(
    run: Run, runner: TaskRunner, record: StepRecord, leaves: bool, sample: Future[list[Canary]]
) -> Check:
    """Ask branches about candidates held for their size, advance the pending list, and write both for the sweep."""
    candidates = record.input(SubtractOutput)
    proof = identical.prove(run, runner, record)
    tally = count_held(run, candidates, proof.verdicts, proof.answers.shown)
    cleared = write_hashes(run.folder, f"{CheckLimitsOutput.STEP}/cleared.u64", tally.cleared)
    record.parts.append(cleared)
    size_verdicts, served = proof.verdicts.write(run.folder)
    record.parts.extend([size_verdicts, served])
    known = candidates.known_list(run.folder)
    holds = HoldFiles(
        size_verdicts=size_verdicts, served=served, cleared=cleared, waits=run.plan.config.waits
    )
    pending = advance_list(run, runner, record, known, holds, writes=leaves)
    record.parts.extend(pending.confirmed)
    tally.add_waiting(pending.waits.waiting, pending.waits.examples)
    holds = replace(holds, confirmed=tuple(pending.confirmed))
    return Check(run, record, proof, tally, [*candidates.hashes, cleared], holds, known, pending, sample)


def _hold_ambiguous(check: Check) -> None:
    found = check.sampled.ambiguous
    if not found:
        return
    hashes = unite([hash64(pa.array([canary.address for canary in found], pa.string()))])
    shown = {canary.address: (canary.branch, canary.path) for canary in found}
    holds = Holds.of(check.run.folder, check.holds)
    count_ambiguous(check.run, check.candidates, check.tally, hashes, shown, holds)
    check.record.parts.append(
        write_hashes(check.run.folder, f"{CheckLimitsOutput.STEP}/ambiguous.u64", hashes)
    )
    check.record.warn(
        f"{len(found):,} objects are kept because lakeFS shows their address for another object, such as"
        f" {found[0].address!r} ({found[0].path!r} on {found[0].branch}); it returns keys decoded and without a"
        " query. Remove the object by hand if it is not in use"
    )


def _limits(check: Check, objects: int, size_bytes: int) -> list[Finding]:
    config, listing = check.run.plan.config, check.listing.counts
    most = config.max_delete_objects
    if most is None:
        most = first_objects_max(check.run.state, check.run.plan.undo.way, check.run.plan.run_id)
    limits = Limits(most, config.max_delete_bytes, config.max_delete_percent)
    base = base_of(check.run)
    # An optimized run lists a part of the namespace; the limit is a share of the whole.
    listed = listing["old_objects"] + listing["young_objects"]
    everything = listed if base is None else max(listed, base.state.objects)
    return limits.check(objects, size_bytes, everything)


def _held_counts(check: Check) -> dict[str, int]:
    by_code = dict.fromkeys(WHY, 0) | {code: held.objects for code, held in check.tally.by_code.items()}
    waiting = check.tally.by_code.get(WAITING, Figures())
    pending = check.pending.waits.to_details(check.known.grace)
    return {
        "held_objects": check.tally.objects - waiting.objects,
        "held_bytes": check.tally.size_bytes - waiting.size_bytes,
        "found_now_objects": pending["found_now"]["objects"],
        "found_now_bytes": pending["found_now"]["bytes"],
        "pending_objects": pending["waiting"]["objects"],
        "pending_bytes": pending["waiting"]["bytes"],
        "same_size_objects": check.proof.objects,
        "cleared_objects": len(check.tally.cleared),
        "questions": check.proof.answers.requests,
        **{f"{code}_objects": objects for code, objects in sorted(by_code.items())},
    }


def _would_delete(check: Check) -> list[dict[str, Any]]:
    found = []
    for reason, figures in check.candidates.reasons.items():
        held = check.tally.by_reason.get(reason, Figures())
        examples = check.pending.waits.confirmed.get(reason, Figures()).examples
        found.append(
            {
                "reason": reason,
                "objects": figures["objects"] - held.objects,
                "bytes": figures["bytes"] - held.size_bytes,
                "examples": [{"address": address} for address in examples],
            }
        )
    return found


def _how_to_free(check: Check) -> str:
    parts = [
        f"{held.objects:,} such as {held.examples[0]['address']!r} ({why_held(code)})"
        for code in UNSETTLED
        if (held := check.tally.by_code.get(code)) is not None
    ]
    problem = check.proof.answers.problem
    objects = check.tally.objects_of(*UNSETTLED)
    text = f"{objects:,} objects are held and stay in the store: {', '.join(parts)}."
    text += f" First problem: {problem}." if problem else ""
    if check.run.plan.config.read_kv:
        return f"{text} This run's staging records did not decide about them; the next run reads them again"
    return (
        f"{text} Set kv_conn_id to the connection of lakeFS's key-value store: its records decide these cases"
    )
