"""A local collection that ended before it was complete, because it awaits approval or a step failed, goes on."""

from __future__ import annotations

from dredge.icechunk.collection.planning import resume_run
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state.store import StateStore
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
        run, plan.state_etag, lambda: StateStore(run.state, run.options).current(plan.uri, plan.spec_version)
    )


def reopen_run(run_uri: str, options: StorageOptions | None = None, clock: Clock = utc_now) -> Run:
    """Take the lease of a local run again, and open the run.

    Args:
        run_uri: URI of the run folder.
        options: None reads the environment.
        clock: this machine's clock.

    Raises:
        ConfigError: there is no such run, or an orchestrator looks after it.
        LeaseHeldError: another run works on the repository.
        RefusedError: another run came in between.
    """
    run = Run.open(run_uri, options, clock)
    plan = run.plan
    shared.take_again(
        run,
        plan.state_etag,
        lambda: StateStore(run.state, options).current(plan.uri, plan.spec_version),
        lambda grant: resume_run(run_uri, plan.uri, grant, options),
    )
    return Run.open(run_uri, options, clock)
