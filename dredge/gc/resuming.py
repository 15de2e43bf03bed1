"""A local run that ended before it was complete, because it awaits approval or because a step failed, goes on."""

from __future__ import annotations

from dredge.gc.planning import resume_run
from dredge.gc.run import Run
from dredge.gc.state.store import StateStore
from dredge.lakefs import LakeFS
from dredge.runs import run as shared
from dredge.runs.clock import Clock, utc_now
from dredge.storage import StorageOptions


def is_local(run: Run) -> bool:
    """Whether a run has no orchestrator that would go on with it."""
    return shared.is_local(run.plan)


def check_resumable(run: Run) -> None:
    """Check that a local run could go on now. Nothing is changed.

    Args:
        run: that waits.

    Raises:
        LeaseHeldError: another run works on the repository.
        RefusedError: another run came in between.
    """
    plan = run.plan
    shared.check_resumable(
        run,
        plan.state_etag,
        lambda: StateStore(run.state, run.options).current(plan.repository, plan.namespace),
    )


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
    plan = run.plan
    shared.take_again(
        run,
        plan.state_etag,
        lambda: StateStore(run.state, options).current(plan.repository, plan.namespace),
        lambda grant: resume_run(run_uri, plan.repository, grant, options),
    )
    return Run.open(run_uri, options, client, clock)
