"""Take deletions of a collection back, and make them final: what `dredge.undo` needs to know of a repository.

restore    chunks, then manifests, transaction logs and snapshots: what is named comes back before what names it
purge      copies and old versions that runs left, once they are old enough
"""

from __future__ import annotations

from functools import partial

from dredge.errors import ConfigError
from dredge.icechunk.collection.kinds import FOLDERS
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.plan import read_plan
from dredge.icechunk.collection.undo_config import IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.maintenance import RUNS, open_state
from dredge.icechunk.repository import spec_version
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.undo.deleted import Collected, SweptRun
from dredge.undo.purge import step as purging
from dredge.undo.restore import step as restoring


def restore(
    config: IcechunkRestoreConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Take deletions of a run back.

    Args:
        config: which, and for how long they are kept.
        runner: spreads the work.
        holder: who takes the lease; None is this restore alone.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run, or it deleted nothing that fits.
        NotFoundError: there is no repository.
        LeaseHeldError: another run works on the repository.
        UnavailableError: some objects could not be brought back; the others were.
    """
    return restoring.restore(collected_of(config.repository, options), config, runner, holder, options, clock)


def purge(
    config: IcechunkPurgeConfig,
    runner: TaskRunner,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> StepSummary:
    """Let copies and old versions go that runs left behind.

    Args:
        config: which; a dry run only looks.
        runner: spreads the work.
        holder: who takes the lease; None is this purge alone.
        options: how stores are reached; None reads the environment. Tasks always read theirs.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run.
        NotFoundError: there is no repository.
        LeaseHeldError: another run works on the repository.
        UnavailableError: something could not be deleted; the rest was.
        FormatError: a pin cannot be read, so nobody can tell what it holds.
    """
    return purging.purge(collected_of(config.repository, options), config, runner, holder, options, clock)


def collected_of(uri: str, options: StorageOptions | None = None) -> Collected:
    """Describe a repository.

    Args:
        uri: the repository.
        options: None reads the environment.

    Raises:
        NotFoundError: there is no repository.
    """
    spec_version(open_reader(uri, options))  # nothing is written where no repository is
    return Collected(
        repository=uri,
        uri=uri,
        state=open_state(uri, options),
        runs_uri=f"{uri.rstrip('/')}/{RUNS}",
        open_run=partial(open_swept, uri=uri, options=options),
    )


def open_swept(run_uri: str, uri: str, options: StorageOptions | None = None) -> SweptRun:
    """Open a run that deleted.

    Args:
        run_uri: URI of its folder.
        uri: the repository whose run it must be.
        options: None reads the environment.

    Raises:
        ConfigError: there is no such run, it deleted nothing, it is of another repository, or from a version that could
            not take deletions back.
        FormatError: its files are damaged.
    """
    plan = read_plan(run_uri, options)
    if plan.uri.rstrip("/") != uri.rstrip("/"):
        raise ConfigError(f"run {plan.run_id} is of {plan.uri}, not of {uri}. Nothing was done.")
    folder = RunFolder(open_writer(run_uri, options), plan.run_id)
    summary = None if plan.config.dry_run else folder.read_summary(ListCandidatesOutput.STEP)
    if summary is None:
        why = "it was a dry run" if plan.config.dry_run else "it never came to its candidates"
        raise ConfigError(f"run {plan.run_id} deleted nothing: {why}")
    if not plan.undo.way_was_chosen:
        raise ConfigError(f"run {plan.run_id} cannot be taken back: {plan.undo.why}")
    output = ListCandidatesOutput.of(summary)
    parts = [part for kind in reversed(FOLDERS) for part in output.candidates(kind)]
    return SweptRun(plan.undo.way, folder, parts, tuple(FOLDERS.values()))
