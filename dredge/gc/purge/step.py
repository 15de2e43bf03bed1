"""Purge: what could be brought back goes for good, in a run whose own complete mark shows that it is not live.

    scheduled   the last step of a collection, where `purge_days` says so
    by hand     a collection that deletes nothing makes the mark; then the same step

The step works under the lease of the mark, and not while an alarm is open or a block is in force (`Collected.check`). A
dry run only looks.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from dredge.errors import ConfigError, FormatError
from dredge.gc.config import AUTO, GCConfig
from dredge.gc.purge.config import PurgeConfig
from dredge.gc.purge.output import PurgeOutput
from dredge.gc.purge.proof import find_live
from dredge.gc.run import Run, open_state, read_plan
from dredge.gc.state import StateStore
from dredge.gc.undo import collected_of
from dredge.lakefs import LakeFS
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.sweep import refuse_old_mark
from dredge.runs.tasks import TaskRunner
from dredge.sets.live import LiveSet
from dredge.storage import StorageOptions
from dredge.undo.alarms import refuse_alarmed
from dredge.undo.purge import purge_runs, swept_before
from dredge.undo.ways import OFF


def purge_old(run: Run, runner: TaskRunner, config: PurgeConfig | None = None) -> StepSummary:
    """Let copies and old versions go that the mark of this run shows as not live.

    Args:
        run: this run; its mark is complete.
        runner: spreads the work.
        config: which; None is what `purge_days` of the run says.

    Raises:
        AlarmError: live objects had been deleted, and nobody has acknowledged it.
        BlockedError: the namespace is blocked.
        RefusedError: the namespace is another server's, the mark is too old, or what is live cannot be read.
        UnavailableError: something could not be deleted; the rest was.
    """
    asked = config or scheduled(run)
    return run.step(PurgeOutput, lambda record: _purge(run, runner, record, asked))


def scheduled(run: Run) -> PurgeConfig:
    """What `purge_days` of a run asks for."""
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
    age_max = timedelta(hours=run.plan.config.safety.mark_age_hours_max)
    refuse_old_mark(run.plan.run_id, run.plan.created_at, run.store_now(), age_max)
    collected = collected_of(run.plan.repository, run.client, run.options)
    runs = list(swept_before(collected, run, config))
    live = find_live(run, runner, record, runs) if runs else LiveSet(())
    purge_runs(collected, run, runner, record, config, runs, live)


def config_of_mark(config: PurgeConfig, server: LakeFS, options: StorageOptions | None) -> GCConfig:
    """Settings of the mark that a purge by hand makes: those of the repository's last run, as a dry run.

    Args:
        config: of the purge.
        server: the lakeFS server.
        options: None reads the environment.
    """
    repository = server.repository(config.repository)
    found = GCConfig(repository=repository.name)
    current = StateStore(open_state(repository.namespace, options), options).current(
        repository.name, repository.namespace
    )
    if current.state is not None:
        # A run of another version, or in a folder that is gone, says nothing.
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
