"""Restore: see `dredge.undo.restore`."""

from __future__ import annotations

from dredge.gc.undo import collected_of, open_swept
from dredge.gc.undo_config import RestoreConfig
from dredge.lakefs import LakeFS
from dredge.runs.clock import Clock, utc_now
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions
from dredge.undo import restore as restoring
from dredge.undo.deleted import Choice, preview


def restore(
    config: RestoreConfig,
    runner: TaskRunner,
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Take deletions of a run back.

    Args:
        config: which, and for how long they are kept.
        runner: spreads the work.
        holder: who takes the lease; None is this restore alone.
        client: the lakeFS server; None reads the environment.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run, or it deleted nothing that fits.
        NotFoundError: there is no such repository.
        LeaseHeldError: another run works on the repository.
        UnavailableError: some objects could not be brought back; the others were.
    """
    collected = collected_of(config.repository, client, options)
    return restoring.restore(collected, config, runner, holder, options, clock)


def foresee_restore(config: RestoreConfig, run_uri: str, options: StorageOptions | None = None) -> Choice:
    """Say what a restore would bring back. Only reads, and only the run's folder.

    Args:
        config: which deletions.
        run_uri: URI of the folder of the run that deleted.
        options: None reads the environment.

    Raises:
        ConfigError: there is no such run, or it deleted nothing.
        FormatError: its files are damaged.
    """
    return preview(config, open_swept(run_uri, options=options))
