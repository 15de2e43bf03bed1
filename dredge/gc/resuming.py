"""A local run that ended before it was complete, because it awaits approval or because a step failed, goes on."""

from __future__ import annotations

from dredge.errors import ConfigError, RefusedError
from dredge.gc.planning import local_holder, resume_run
from dredge.gc.run import Run
from dredge.gc.state.store import StateStore
from dredge.lakefs import LakeFS
from dredge.runs.clock import Clock, utc_now
from dredge.storage import StorageOptions


def is_local(run: Run) -> bool:
    """Whether a run has no orchestrator that would go on with it."""
    return run.plan.lease.holder == local_holder(run.plan.run_id)


def reopen_run(
    run_uri: str,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Run:
    """Take the lease of a local run again, and open the run.

    Args:
        run_uri: URI of the run folder.
        client: None reads the environment, when a step first needs it.
        options: None reads the environment.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run, or an orchestrator looks after it.
        LeaseHeldError: another run works on the repository.
        RefusedError: another run came in between.
    """
    run = Run.open(run_uri, options, client, clock)
    if not is_local(run):
        raise ConfigError(
            f"{run_uri} is a run of {run.plan.lease.holder}. Nothing was done. Clear its tasks there; they go on from"
            " what is complete."
        )
    grant = run.lease.acquire(run.plan.lease.holder)
    try:
        _check_state(run)
        if not resume_run(run_uri, run.plan.repository, grant, options):
            raise RefusedError(f"run {run.plan.run_id} is being resumed elsewhere. Nothing was done.")
    except Exception:
        run.lease.release(grant)
        raise
    return Run.open(run_uri, options, client, clock)


def _check_state(run: Run) -> None:
    """Refuse to go on from a state that is not the last one any more. Nothing that lives would be lost, but the run
    would end without a state of its own."""
    plan = run.plan
    current = StateStore(run.state, run.options).current(plan.repository, plan.namespace)
    ours = current.state is not None and current.state.run_id == plan.run_id
    if current.etag != plan.state_etag and not ours:
        raise RefusedError(
            f"run {plan.run_id} cannot go on: another run was completed since it was planned. Nothing was done. Start a"
            " new run."
        )
