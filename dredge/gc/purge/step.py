"""Purge: see `dredge.undo.purge.step`."""

from __future__ import annotations

from dredge.gc.purge.config import PurgeConfig
from dredge.gc.undo import collected_of
from dredge.lakefs import LakeFS
from dredge.runs.clock import Clock, utc_now
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions
from dredge.undo.purge import step


def purge(
    config: PurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Let copies and old versions go that runs left behind.

    Args:
        config: which; a dry run only looks.
        runner: spreads the work.
        holder: who takes the lease; None is this purge alone.
        client: the lakeFS server; None reads the environment.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run.
        NotFoundError: there is no such repository.
        LeaseHeldError: another run works on the repository.
        RefusedError: the namespace is blocked or another server's.
        UnavailableError: something could not be deleted; the rest was.
        FormatError: a pin cannot be read, so nobody can tell what it holds.
    """
    collected = collected_of(config.repository, client, options)
    return step.purge(collected, config, runner, holder, options, clock)
