"""Collection by the library itself, with our cutoff, limits, lease and report: for small repositories.

The library deletes what refs do not reach and, on spec 2, drops old snapshots that no ref reaches from the
repo info. It gives counts only: there is no ledger of names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dredge.approve.settings import ALWAYS
from dredge.errors import ConfigError, RefusedError, UnavailableError
from dredge.icechunk.collection.check_again import refuse_alarmed
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.planning import plan_collection
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.forgetting import ask_witnesses
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.library import LibraryCollection, collect_with_library, open_library
from dredge.icechunk.repository import MANIFESTS, ids_in_config, read_history
from dredge.runs.clock import Clock, utc_now
from dredge.runs.closing import closing_with
from dredge.runs.lease import LeaseGrant
from dredge.runs.limits import worst
from dredge.runs.output import StepOutput
from dredge.runs.payload import to_json
from dredge.runs.perform import StepRecord
from dredge.storage import StorageOptions
from dredge.undo.ways import OFF, QUARANTINE, VERSIONS

type Collect = Callable[[datetime, bool], LibraryCollection]


class LibraryOutput(StepOutput):
    """What the library deleted, or would delete."""

    STEP = "library"


def collect_by_library(
    config: CollectConfig,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
    collect: Collect | None = None,
    lease: LeaseGrant | None = None,
) -> dict[str, Any]:
    """Collect with the library.

    Args:
        config: what the user asks for; tuning and old repo infos do not apply.
        options: None reads this process's environment.
        clock: this machine's clock.
        collect: the library's call: (cutoff, dry run) → counts; None opens the library.
        lease: the right to work on the repository, when it was taken before; then it is not given back.

    Returns:
        Run id, cutoff, counts by kind, bytes.

    Raises:
        ConfigError: kinds of objects are to be kept, deletions to be taken back or to wait, or somebody to approve
            them, which the library cannot.
        RefusedError: a limit stops the run, something is pinned or kept because of the past, or the library refused.
        UnavailableError: some objects could not be deleted, or phases were skipped.
    """
    if config.kept_kinds:
        raise ConfigError(
            f"the library deletes objects of every kind; {', '.join(config.kept_kinds)} can be kept only by Dredge's"
            " own collection"
        )
    if config.undo in (QUARANTINE, VERSIONS):
        raise ConfigError(
            f"undo is {config.undo!r}, and the library deletes without a ledger, so nothing could be brought back. Let"
            " Dredge collect, or set undo to off"
        )
    if config.approval == ALWAYS and not config.dry_run:
        raise ConfigError(
            "approval is 'always', and the library deletes what it finds at that moment, which nobody can have seen."
            " Let Dredge collect, or set approval to over_limits: the library then stops at the limits"
        )
    if config.waits and not config.dry_run:
        raise ConfigError(
            "the library deletes what it finds at once, and nothing waits for another run to find it, too. Let Dredge"
            " collect; or say so with unsafe_grace_seconds = 0"
        )
    config = replace(config, undo=OFF, inventory=None)
    run = Run.open(plan_collection(config, lease, options, clock).run_uri, options, clock)

    def end() -> None:
        if lease is None:
            run.lease.release(run.plan.lease)

    with closing_with(end, "giving the lease back"):
        _refuse_pins(run)
        _ask_witnesses(run)
        _refuse_virtual(run)
        read_history(run.reader).check_links()
        call = collect or _library(config.uri, options)
        summary = run.step(LibraryOutput, lambda record: _collect(run, call, record))
    return {
        "run_id": run.plan.run_id,
        "outcome": summary.status,
        "dry_run": config.dry_run,
        "cutoff": run.plan.cutoff.isoformat(),
        "counts": dict(summary.counts),
        "warnings": list(summary.warnings),
    }


def _refuse_pins(run: Run) -> None:
    if not run.plan.config.dry_run and run.pinned():
        raise RefusedError(
            f"{run.plan.uri}: objects that were brought back are to stay for now, and the library knows nothing of"
            " that. Nothing was deleted. Let Dredge collect, or end their pins."
        )


def _ask_witnesses(run: Run) -> None:
    """Refuse where the past says that something is to stay: the library knows nothing of it."""
    keep = timedelta(days=run.plan.config.keep_lost_days)
    judgement = ask_witnesses(run.plan.uri, run.options, keep)
    judgement.refuse(run.plan.uri)
    kept = [*judgement.lost, *judgement.unnamed, *(ref.label for ref in judgement.old_refs)]
    if kept and not run.plan.config.dry_run:
        raise RefusedError(
            f"{run.plan.uri}: {len(kept)} lost tips, snapshots that no run saw, or refs of before the upgrade, such as"
            f" {kept[0]}, are to stay, and the library knows nothing of that. Nothing was deleted. Let Dredge collect."
        )
    refuse_alarmed(run)


def _refuse_virtual(run: Run) -> None:
    """Refuse where a manifest names objects by location: the library does not count them as live in its own folder."""
    if run.plan.config.dry_run:
        return
    if ids := sorted(ids_in_config(run.reader)):
        raise RefusedError(
            f"{run.plan.uri}: a container of virtual chunks may be a file of this repository, such as {ids[0]}, and"
            " the library deletes it. Nothing was deleted. Let Dredge collect."
        )
    keys = (key for batch in run.reader.list(MANIFESTS) for key in batch["key"].to_pylist())
    for key in keys:
        if ids := parse_manifest(run.reader.get(key), key).virtual_ids(key):
            raise RefusedError(
                f"{run.plan.uri}: virtual references of {key} may lead to files of this repository, such as {ids[0]},"
                " and the library deletes them. Nothing was deleted. Let Dredge collect."
            )


def _library(uri: str, options: StorageOptions | None) -> Collect:
    repository = open_library(uri, options)
    return lambda cutoff, dry_run: collect_with_library(repository, cutoff, dry_run=dry_run)


def _collect(run: Run, collect: Collect, record: StepRecord) -> None:
    would = collect(run.plan.cutoff, True)
    # The library does not say how many objects there are, so only absolute limits can be held against it.
    findings = run.plan.config.limits.check(would.objects, would.size_bytes, 0)
    record.details["findings"] = [to_json(finding) for finding in findings]
    verdict = worst(findings)
    if run.plan.config.dry_run or verdict != "passed":
        record.status = "dry_run"
        record.counts.update({f"would_delete_{name}": value for name, value in would.counts().items()})
        if not run.plan.config.dry_run:
            record.status = "refused"
            bad = "; ".join(finding.text for finding in findings if finding.verdict == verdict)
            record.error = RefusedError(
                f"run {run.plan.run_id}: {bad}. Nothing was deleted. Raise the limit."
            )
        return
    done = collect(run.plan.cutoff, False)
    record.counts.update({f"deleted_{name}": value for name, value in done.counts().items()})
    record.counts["failed_objects"] = done.failed
    if done.failed or done.skipped:
        record.status = "partial"
        record.error = UnavailableError(
            f"run {run.plan.run_id}: Icechunk could not delete {done.failed:,} objects"
            + (f" and left out {', '.join(done.skipped)}" if done.skipped else "")
            + f". First errors: {'; '.join(done.errors[:3]) or 'none given'}. Run it again later."
        )
