"""Step bulk_delete: re-check, delete the candidates kind by kind, and settle the ledger.

    approved, if approval is required? → re-check
      → snapshots → transaction logs → manifests → chunks → old repo infos → settled ledger

Commits after the mark are normal: their chunks are live or young, and the sweep subtracts the chunks of their manifests
once more. A ref that reaches a candidate stops the sweep: in spec 1 a branch or a tag can be set to a released
snapshot, and then the mark is wrong.

Referring kinds are deleted first, the next kind begins only if no deletion of the last kind failed, and a kept file
keeps all files in its references. So at any stop of the sweep, no file refers to a deleted file.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from dredge.approve.sweep import Sweep
from dredge.errors import DredgeError, NotFoundError, RefusedError, UnavailableError
from dredge.icechunk import repository
from dredge.icechunk.collection import outputs
from dredge.icechunk.collection.check_again import note_deletion, refuse_alarmed
from dredge.icechunk.collection.deleting import NAMING, DeleteConfig, DeleteTask, delete_parts
from dredge.icechunk.collection.index import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.collection.list_candidates.step import needed_copies
from dredge.icechunk.collection.mark.step import with_ancestors
from dredge.icechunk.collection.pinned import pinned_with_needs, read_kept, with_needs
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.record import read_old_refs
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.ids import hash_ids
from dredge.runs import ledger
from dredge.runs.clock import running_seconds
from dredge.runs.failures import not_deleted
from dredge.runs.gate import Watch, watching
from dredge.runs.payload import PartInfo, StepSummary
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, unite, write_hashes
from dredge.sets.live import LocatedSet
from dredge.storage import ObjectReader, exists, store_clock
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.protecting import NOT_COPIED, words_of_not_copied

log = logging.getLogger("dredge")
STEP = outputs.BulkDeleteOutput.STEP
_REFS_LOOKED_AT = "new_since_mark"
_FAILURES_SHOWN = 20
_SETTLED_AT_ONCE = 8


class Changes(Struct, frozen=True):
    """New live snapshots since the mark, and the ref or repo info that reaches a candidate (None without one)."""

    new: frozenset[str]
    in_use_by: str | None


def look_again(
    reader: ObjectReader,
    spec_version: int,
    marked: Collection[str],
    candidates: Collection[str],
    old_refs: Collection[tuple[str, str]] = (),
) -> Changes:
    """Compare the repository with a mark; FormatError if it cannot be read, RefusedError if main is missing."""
    if spec_version == 2:
        listed = {entry.id for entry in repository.read_repo_info(reader).snapshots}
        back = sorted(listed & set(candidates))
        user = f"the repo info, which lists {back[0]}" if back else _late_old_ref(reader, marked, old_refs)
        return Changes(frozenset(listed - set(marked)), user)
    new: set[str] = set()
    for (kind, name), tip in sorted(repository.read_refs(reader).items()):
        node: str | None = tip
        while node is not None and node not in marked and node not in new:
            if node in candidates:
                return Changes(frozenset(new), f"{kind} {name}, which reaches snapshot {node}")
            key = repository.SNAPSHOTS + node
            try:
                parent = parse_snapshot(reader.get(key), key).parent_id
            except NotFoundError:
                return Changes(frozenset(new), f"{kind} {name}, which reaches the missing snapshot {node}")
            new.add(node)
            node = parent
    return Changes(frozenset(new), None)


def _late_old_ref(
    reader: ObjectReader, marked: Collection[str], known: Collection[tuple[str, str]]
) -> str | None:
    for ref in read_old_refs(reader):
        if ref.tip not in marked and (ref.label, ref.tip) not in known:
            return f"{ref.label} in refs/ at snapshot {ref.tip}, written by a program that still uses spec 1"
    return None


def find_unnamed(
    reader: ObjectReader,
    files: repository.SnapshotFiles,
    marked: Collection[str],
    candidates: Collection[str],
    since: datetime,
) -> set[str]:
    """Unreferenced snapshot files written since the mark, with their ancestors."""
    found = {
        node
        for node, info in files.items()
        if node not in marked and node not in candidates and not repository.is_old(info.last_modified, since)
    }
    return with_ancestors(reader, found, marked) - set(marked)


def find_use(
    run: Run, marked: Collection[str], candidates: Collection[str], old_refs: Collection[tuple[str, str]] = ()
) -> str | None:
    """Return the reason to stop a running sweep, None to continue. Raises as `look_again`."""
    return _in_use(run, look_again(run.reader, run.plan.spec_version, marked, candidates, old_refs))


def _in_use(run: Run, changes: Changes) -> str | None:
    if changes.in_use_by is None:
        return None
    return (
        f"run {run.plan.run_id}: a candidate snapshot is used again by {changes.in_use_by}. The run stopped deleting."
        " Start a new run."
    )


def error_of_stop(run: Run, watch: Watch) -> DredgeError:
    """Make the error for a sweep that the driver's watch stopped."""
    if isinstance(watch.error, DredgeError):
        return watch.error
    if watch.error is None and watch.found is not None:
        return RefusedError(watch.found)
    why = (
        "the sweep stopped because the last check of the refs was too old."
        if watch.error is None
        else f"refs could not be checked ({watch.error})."
    )
    return UnavailableError(
        f"run {run.plan.run_id}: {why} The ledger lists the deleted objects. Run the step again to continue."
    )


def newly_live(
    reader: ObjectReader, new: Collection[str], unnamed: Collection[str] = ()
) -> dict[str, Hashes]:
    """Read the ids that snapshots need, by kind of object: locations of virtual chunks may contain ids of any kind."""
    refs = refs_by_manifest(snapshot_rows(reader, sorted(new)))
    there = [node for node in sorted(unnamed) if exists(reader, repository.SNAPSHOTS + node)]
    more = refs_by_manifest(snapshot_rows(reader, there))
    refs = {node: count for node, count in more.items() if exists(reader, repository.MANIFESTS + node)} | refs
    kept, chunks = hash_ids({*new, *there}), [found for _, found in manifest_rows(reader, refs)]
    named = {
        "snapshots": kept,
        "transactions": kept,
        "manifests": hash_ids(refs),
        "chunks": unite([found.native for found in chunks]),
    }
    virtual = unite([found.virtual for found in chunks])
    return {kind: unite([virtual, named.get(kind, NONE)]) for kind in repository.FOLDERS}


def bulk_delete(run: Run, runner: TaskRunner) -> StepSummary:
    """Check the candidates again, then delete them; a dry run only counts them. After an error, another call continues
    from the ledger. Raises RefusedError: a guard did not pass, a person did not approve, the inputs do not belong
    together, the mark is too old, or a candidate snapshot is in use again; LeaseHeldError: another run has taken over;
    UnavailableError, ConfigError, PartialError: not all objects could be deleted."""
    return run.step(
        outputs.BulkDeleteOutput,
        lambda record: _Sweep(run, runner, record).perform(),
        _Sweep.inputs(run),
    )


class _Sweep(Sweep[Run]):
    OUTPUT, APPROVE = outputs.BulkDeleteOutput, outputs.ApproveOutput

    @property
    def has_begun(self) -> bool:
        return _REFS_LOOKED_AT in self.record.counts

    def refuse_alarmed(self) -> None:
        refuse_alarmed(self.run)

    def settle(self, complete: bool) -> DredgeError | None:
        return settle(self.run, self.record)

    def delete(self) -> None:
        run, record = self.run, self.record
        candidates = record.input(outputs.ListCandidatesOutput)
        if not candidates.total("candidates_objects"):
            self.refuse_alarmed()
            return
        mark = record.input(outputs.MarkOutput)
        marked = outputs.read_live_snapshots(run.folder, mark)
        keys = candidates.keys(run.folder, "snapshots")
        doomed = {key.removeprefix(repository.FOLDERS["snapshots"]) for key in keys}
        with at_once() as ask:
            pinned = ask(lambda: pinned_with_needs(run, mark, STEP, read_kept(run)))
            files = ask(repository.list_snapshots, run.reader)
            # The first check of refs is a later one.
            at, begun = ask(store_clock, run.state, ""), ask(ledger.has_raw, run.folder)
            asked = running_seconds()
            changes = look_again(run.reader, run.plan.spec_version, marked, doomed, mark.old_refs)
        if (text := _in_use(run, changes)) is not None:
            raise RefusedError(text)
        unnamed = find_unnamed(run.reader, files.result(), marked | changes.new, doomed, run.plan.created_at)
        alive = newly_live(run.reader, changes.new, unnamed)
        record.counts[_REFS_LOOKED_AT] = len(changes.new)
        record.counts["unnamed_since_mark"] = len(unnamed)
        with at_once() as ask:
            made = ask(self._config, alive, pinned.result(), begun.result())
            veto = self.check_right(lambda: note_deletion(run, record))
        config, safety = made.result(), run.plan.config.safety
        is_recent = running_seconds() - asked < safety.watch_silence_seconds_max / 2
        with watching(
            run.folder,
            run.state,
            config.gate.watch,
            lambda: veto() or find_use(run, marked | changes.new, doomed, mark.old_refs),
            safety.gate_every_seconds,
            at=at.result() if is_recent else None,  # an old look would close the gate
        ) as watch:
            self._delete_by_kind(config, watch)

    def _config(
        self, alive: Mapping[str, Hashes], pinned: tuple[LocatedSet, ...], begun: bool
    ) -> DeleteConfig:
        run, attempt = self.run, self.record.attempt.number
        return DeleteConfig(
            gate=self.gate(),
            delete_keys=run.plan.config.tuning.delete_keys,
            alive={
                kind: write_hashes(run.folder, f"{STEP}/_alive/{attempt:03d}-{kind}.ids", ids)
                for kind, ids in alive.items()
            },
            pinned=pinned,
            undo=run.plan.undo.way,
            begun=begun,
        )

    def _delete_by_kind(self, config: DeleteConfig, watch: Watch) -> None:
        run, runner = self.run, self.runner
        parts = {
            kind: self.record.input(outputs.ListCandidatesOutput).candidates(kind)
            for kind in repository.FOLDERS
        }
        left = [kind for kind, of_kind in parts.items() if of_kind]
        while left:
            kind, needed = left[0], list[str]()
            if kind == repository.OVERWRITTEN:  # read again: the log may need other copies than at the mark
                needed = sorted(needed_copies(run.reader, repository.read_repo_info(run.reader)))
            # A single task deletes all kinds. Several wait for each other after each kind.
            together = [each for each in left if each != repository.OVERWRITTEN] or left
            together = together if runner.default_parallelism == 1 else [kind]
            tasks = [
                DeleteTask(
                    kinds=together,
                    parts={**{each: parts[each] for each in together}, kind: share},
                    needed=needed,
                )
                for share in run.shares(runner, parts[kind])
            ]
            objects = sum(part.rows for each in together for part in parts[each])
            results = run.spread(runner, STEP, delete_parts, config, tasks, "objects", objects)
            if any(result.stopped for result in results):
                self.check_approval()  # raises for a rejection, with the person
                raise error_of_stop(run, watch)
            kind = results[0].last
            if failed := sum(result.failed for result in results):
                log.warning("%d %s could not be deleted, so no later kind is deleted", failed, kind)
                return
            # An object that stays (the store holds it, say) keeps the objects that it needs.
            if kind in NAMING and any(result.kept for result in results):
                kept = _kept(run, parts[kind])
                named = with_needs(run, f"{STEP}/_named_by_kept", kept, passes_archived=True)
                config = replace(config, named=(*config.named, named))
            left = left[left.index(kind) + 1 :]


def _kept(run: Run, parts: Sequence[PartInfo]) -> set[str]:
    outcomes = (_read_outcomes(run, part) for part in parts)
    return {
        address
        for rows in outcomes
        for address in rows["address"].filter(pc.equal(rows["outcome"], ledger.KEPT)).to_pylist()
    }


def _read_outcomes(run: Run, part: PartInfo) -> pa.Table:
    return ledger.best(ledger.read_raw(run.folder, ledger.part_stem(part)))


def settle(run: Run, record: StepRecord) -> DredgeError | None:
    """Write the settled ledger (one row an object) and its figures; returns the error for failed deletions, else
    None."""
    totals: Counter[str] = Counter()
    failures: list[dict[str, str | None]] = []
    codes: set[str] = set()
    not_copied = 0
    candidates = record.input(outputs.ListCandidatesOutput)
    parts = [(kind, part) for kind in repository.FOLDERS for part in candidates.candidates(kind)]
    settled = ordered_map(lambda item: _read_outcomes(run, item[1]), parts, _SETTLED_AT_ONCE)
    for (kind, part), rows in zip(parts, settled, strict=True):
        found = ledger.settle_rows(
            run.folder, part, rows, ["outcome", "code"], _FAILURES_SHOWN - len(failures)
        )
        record.parts.append(found.part)
        failures += found.failures
        # Of all failures, not only of the shown ones: a temporary failure is worth another try.
        codes |= {str(group["code"]) for group in found.groups if group["outcome"] == ledger.FAILED}
        for group in found.groups:
            not_copied += group["objects"] if group["code"] == NOT_COPIED else 0
            for unit in ("objects", "bytes"):
                totals[f"{kind}_{group['outcome']}_{unit}"] += group[unit]
    record.counts.update(totals)
    for outcome in ledger.OUTCOMES:
        for unit in ("objects", "bytes"):
            record.counts[f"{outcome}_{unit}"] = sum(
                totals[f"{kind}_{outcome}_{unit}"] for kind in repository.FOLDERS
            )
    if not_copied:
        record.warn(words_of_not_copied(not_copied))
    if not failures:
        return None
    record.details["failures"] = failures
    text = (
        f"run {run.plan.run_id}: {record.counts['failed_objects']:,} objects could not be deleted"
        f" ({', '.join(sorted(codes))}); no later kind was deleted. The ledger lists the deleted objects."
    )
    return not_deleted(text, codes, record.counts["deleted_objects"])
