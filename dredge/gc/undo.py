"""A lakeFS repository for `dredge.undo`, its restores and its purges.

A purge deletes copies and old versions permanently, in a run with a complete mark: they are not live there.

    scheduled   the last step of a collection with `purge_days`
    by hand     a collection without deletions makes the mark; then the same step

The step needs the lease of the mark, and refuses with an open alarm or a block (`Collected.check`). A dry run only
selects.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from dredge.errors import ConfigError, FormatError
from dredge.gc.bulk_delete import Subtracted, recheck
from dredge.gc.check_limits import CheckLimitsOutput, ask_about
from dredge.gc.config import AUTO, GCConfig, PurgeConfig, RestoreConfig
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA, canonical_namespace
from dredge.gc.run import RUNS, Run, open_state, read_plan
from dredge.gc.state import StateStore
from dredge.gc.subtract import SubtractOutput
from dredge.gc.witness.owner import Site, check_before_deleting
from dredge.lakefs import LakeFSClient
from dredge.lakefs.model import Repository
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary
from dredge.runs.run import StepRecord, refuse_old_mark
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet, in_any
from dredge.storage import StorageOptions, open_writer
from dredge.undo import restore as restoring
from dredge.undo.alarms import refuse_alarmed
from dredge.undo.deleted import Collected, SweptRun
from dredge.undo.leftovers import PurgeOutput as AnyPurgeOutput
from dredge.undo.purge import purge_runs, swept_before
from dredge.undo.ways import OFF


def collected_of(
    repository: str, client: LakeFSClient | None = None, options: StorageOptions | None = None
) -> Collected:
    """Describe a repository."""
    server = client or LakeFSClient.from_env()
    found = server.repository(repository)
    state = open_state(found.namespace, options)
    return Collected(
        repository=repository,
        uri=found.namespace,
        state=state,
        runs_uri=f"{found.namespace.rstrip('/')}/{RUNS}",
        open_run=partial(open_swept, repository=found, options=options),
        check=lambda run_id: check_before_deleting(Site(state, server, repository, run_id)),
    )


def open_swept(
    run_uri: str, repository: Repository | None = None, options: StorageOptions | None = None
) -> SweptRun:
    """Open a run with deletions, of a repository if given. Raises ConfigError: no such run, a run without deletions,
    or of another repository."""
    plan = read_plan(run_uri, options)
    # The namespace as well: an earlier repository with the same name may have had another one.
    if repository is not None and (
        canonical_namespace(plan.namespace) != canonical_namespace(repository.namespace)
        or plan.repository != repository.name
    ):
        raise ConfigError(
            f"run {plan.run_id} is of {plan.repository} ({plan.namespace}), not of {repository.name}"
            f" ({repository.namespace}). Nothing was changed."
        )
    folder = RunFolder(open_writer(run_uri, options), plan.run_id)
    found = None if plan.dry_run else folder.read_output(SubtractOutput)
    if found is None:
        why = "it was a dry run" if plan.dry_run else "it stopped before its candidates"
        raise ConfigError(f"run {plan.run_id} deleted nothing: {why}")
    return SweptRun(plan.undo.way, folder, found.candidates, (DATA,))


def restore(
    config: RestoreConfig,
    runner: TaskRunner,
    holder: str | None = None,
    client: LakeFSClient | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Restore deletions of a run. `holder`: of the lease; None is this restore alone. Raises ConfigError: no such run,
    or no matching deletion; NotFoundError: no such repository; else as `dredge.undo.restore.restore`."""
    collected = collected_of(config.repository, client, options)
    return restoring.restore(collected, config, runner, holder, options, clock)


def purge_old(run: Run, runner: TaskRunner, config: PurgeConfig | None = None) -> StepSummary:
    """Purge copies and old versions of objects outside the live set of this run. `run`: has a complete mark. `config`:
    the selection; None uses `purge_days` of the run. Raises AlarmError: live objects had been deleted, without an
    acknowledgement; BlockedError: the namespace is blocked; RefusedError: another server owns the namespace, the mark
    is too old, or live data cannot be read; UnavailableError: some leftovers could not be deleted; the others were."""
    asked = config or scheduled(run)
    return run.step(PurgeOutput, lambda record: _purge(run, runner, record, asked))


def scheduled(run: Run) -> PurgeConfig:
    """The config from `purge_days` of a run."""
    days, plan = run.plan.config.purge_days, run.plan
    if days is None:
        raise ConfigError(f"run {plan.run_id} purges nothing: purge_days is empty")
    return PurgeConfig(
        repository=plan.repository,
        older_than_days=days,
        dry_run=plan.dry_run,
        run_root=plan.run_uri.rpartition("/")[0],
    )


def _purge(run: Run, runner: TaskRunner, record: StepRecord, config: PurgeConfig) -> None:
    if not config.dry_run:
        refuse_alarmed(run.state, f"run {run.plan.run_id} purges nothing")
    refuse_old_mark(run)
    collected = collected_of(run.plan.repository, run.client, run.options)
    runs = list(swept_before(collected, run, config))
    live = find_live(run, runner, record, runs) if runs else LiveSet(())
    purge_runs(collected, run, runner, record, config, runs, live)


def config_of_mark(config: PurgeConfig, server: LakeFSClient, options: StorageOptions | None) -> GCConfig:
    """The config of the mark for a manual purge: the config of the repository's last run, as a dry run."""
    repository = server.repository(config.repository)
    found = GCConfig(repository=repository.name)
    current = StateStore(open_state(repository.namespace, options), options).current(
        repository.name, repository.namespace
    )
    if current.state is not None:
        # The last run may be of another version, or its folder deleted.
        with suppress(ConfigError, FormatError):
            found = read_plan(current.state.run_uri, options).config
    return replace(
        found,
        repository=repository.name,
        dry_run=True,
        mode=AUTO,
        undo=OFF,
        read_kv=False,
        inventory=None,
        window_begin=None,
        window_end=None,
        purge_days=None,
        run_root=config.run_root,
    )


class PurgeOutput(AnyPurgeOutput):
    """The outcome of each copy and old version."""

    INPUTS = (MarkUncommittedOutput, ListCommittedOutput, CheckLimitsOutput)


def find_live(run: Run, runner: TaskRunner, record: StepRecord, runs: Sequence[SweptRun]) -> LiveSet:
    """Find objects to be kept by a purge, with the same proof as for candidates: a copy is the last copy.

    live in the mark · live since the mark (a re-check) · of the size of an entry of a branch head, without a proof
    """
    committed = record.input(ListCommittedOutput)
    subtracted = Subtracted.of_mark(run, committed)
    recheck(run, runner, subtracted, f"{PurgeOutput.STEP}/recheck/{record.attempt.number:03d}")
    unproved = _unproved(run, runner, record, runs)
    record.counts["unproved_objects"] = len(unproved)
    part = write_hashes(run.folder, f"{PurgeOutput.STEP}/unproved-0.u64", unproved)
    more = [*subtracted.live, ShardedSet(0, {0: part})]
    mark = committed.live
    return LiveSet(
        (*mark.sets, *(LocatedSet(run.plan.run_uri, found) for found in more)), mark.counted, mark.counted_uri
    )


def _unproved(run: Run, runner: TaskRunner, record: StepRecord, runs: Sequence[SweptRun]) -> Hashes:
    """Deleted objects of the size of an entry of a branch head, possibly served by a branch."""
    tables = [swept.folder.read_part(part, ["hash", "size"]) for swept in runs for part in swept.candidates]
    if not tables:
        return NONE
    rows = pa.concat_tables(tables)
    hashes, sizes = rows["hash"].to_numpy(), rows["size"].to_numpy().astype(np.uint64)
    proof = ask_about(run, runner, record, hashes, sizes, f"{PurgeOutput.STEP}/same_size")
    if not proof.objects:
        return NONE
    (of_a_head,) = in_any(record.input(ListCommittedOutput).sizes, [sizes])
    asked = rows.filter(pa.array(of_a_head))
    held = proof.verdicts.codes_of(asked).is_valid().to_numpy(zero_copy_only=False)
    found = unite([asked["hash"].to_numpy()[held]])
    return unite([found, proof.answers.served[contains(unite([hashes]), proof.answers.served)]])
