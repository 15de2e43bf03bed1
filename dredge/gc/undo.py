"""A lakeFS repository for `dredge.undo`, and its restores."""

from __future__ import annotations

from functools import partial

from dredge.errors import ConfigError
from dredge.gc.config import RestoreConfig
from dredge.gc.namespaces import DATA, canonical_namespace
from dredge.gc.run import RUNS, open_state, read_plan
from dredge.gc.subtract import SubtractOutput
from dredge.gc.witness.owner import check_before_deleting
from dredge.gc.witness.ownership import Site
from dredge.lakefs import LakeFSClient
from dredge.lakefs.model import Repository
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions, open_writer
from dredge.undo import restore as restoring
from dredge.undo.deleted import Collected, SweptRun


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
            f" ({repository.namespace}). Nothing was done."
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
    """Restore deletions of a run; `holder` of the lease is None for this restore alone.

    Raises:
        ConfigError: no such run, or no matching deletion.
        NotFoundError: no such repository.
        LeaseHeldError: another run works on the repository.
        UnavailableError: some objects could not be restored; the others were.
    """
    collected = collected_of(config.repository, client, options)
    return restoring.restore(collected, config, runner, holder, options, clock)
