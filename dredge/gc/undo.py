"""A lakeFS repository for `dredge.undo`: its restores, and runs other than collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from dredge.errors import ConfigError
from dredge.gc.namespaces import DATA, canonical_namespace
from dredge.gc.run import RUNS, open_state, read_plan
from dredge.gc.subtract import SubtractOutput
from dredge.gc.undo_config import RestoreConfig
from dredge.gc.witness.owner import check_before_deleting
from dredge.gc.witness.ownership import Site
from dredge.lakefs import LakeFS, LakeFSClient
from dredge.lakefs.model import Repository
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions, open_writer
from dredge.undo import restore as restoring
from dredge.undo.deleted import Choice, Collected, SweptRun, preview
from dredge.undo.side_run import SideRun
from dredge.undo.side_run import side_run as begin_side_run


def collected_of(
    repository: str, client: LakeFS | None = None, options: StorageOptions | None = None
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
            f" ({repository.namespace}). Nothing was done."
        )
    folder = RunFolder(open_writer(run_uri, options), plan.run_id)
    summary = None if plan.dry_run else folder.read_summary(SubtractOutput.STEP)
    if summary is None:
        why = "it was a dry run" if plan.dry_run else "it stopped before its candidates"
        raise ConfigError(f"run {plan.run_id} deleted nothing: {why}")
    return SweptRun(plan.undo.way, folder, SubtractOutput.of(summary).candidates, (DATA,))


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


@contextmanager
def side_run(
    repository: str,
    place: Callable[[str], str],
    what: str,
    asked: Mapping[str, Any],
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Iterator[SideRun]:
    """Hold the lease of a repository for a run other than a collection.

    Args:
        place: returns for the namespace the URI of the folder of run folders.
        asked: its settings, JSON.
        holder: of the lease, which gets it again after a crash; None is this run alone.

    Raises:
        LeaseHeldError: another run works on the repository.
        RefusedError: the store's clock and this machine's differ too much.
    """
    found = (client or LakeFSClient.from_env()).repository(repository)
    state, folder = open_state(found.namespace, options), place(found.namespace)
    with begin_side_run(
        repository, found.namespace, state, folder, what, asked, holder, options, clock
    ) as run:
        yield run
