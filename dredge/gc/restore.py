"""Restore deletions of lakeFS runs (`dredge.undo.restore`)."""

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
    """Restore deletions of a run.

    Args:
        holder: of the lease; None is this restore alone.
        client: None reads the environment.
        options: None reads the environment. Tasks always read theirs.

    Raises:
        ConfigError: no such run, or no matching deletion.
        NotFoundError: no such repository.
        LeaseHeldError: another run works on the repository.
        UnavailableError: some objects could not be restored; the others were.
    """
    collected = collected_of(config.repository, client, options)
    return restoring.restore(collected, config, runner, holder, options, clock)


def foresee_restore(config: RestoreConfig, run_uri: str, options: StorageOptions | None = None) -> Choice:
    """Count the objects of a restore, from the run's folder only. Raises ConfigError: no such run, or it deleted no
    object."""
    return preview(config, open_swept(run_uri, options=options))
