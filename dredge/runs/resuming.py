"""A local run that ended before it was complete, because it awaits approval or because a step failed, goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from dredge.errors import ConfigError, DredgeError, RefusedError
from dredge.runs.lease import LeaseGrant
from dredge.runs.run import PlannedRun, RunPlan
from dredge.runs.versions import Current, State


def local_holder(run_id: str) -> str:
    """Name who holds the lease of a run that no orchestrator looks after.

    Args:
        run_id: of the run.
    """
    return f"run {run_id}"


def is_local(plan: RunPlan) -> bool:
    """Whether a run has no orchestrator that would go on with it.

    Args:
        plan: of the run.
    """
    return plan.lease.holder == local_holder(plan.run_id)


def take_again[P: RunPlan, S: State](
    run: PlannedRun[P],
    state_etag: str | None,
    current: Callable[[], Current[S]],
    resume: Callable[[LeaseGrant], bool],
) -> None:
    """Take the lease of a local run again, and let the run go on under it.

    Args:
        run: as it was planned.
        state_etag: of the pointer to the state when it was.
        current: reads the state that stands, when the lease is taken.
        resume: lets the run go on under a lease; says whether it does.

    Raises:
        ConfigError: an orchestrator looks after it.
        LeaseHeldError: another run works on the repository.
        RefusedError: another run came in between.
    """
    if not is_local(run.plan):
        raise ConfigError(
            f"{run.folder.uri} is a run of {run.plan.lease.holder}. Nothing was done. Clear its tasks there; they go on"
            " from what is complete."
        )
    grant = run.lease.acquire(run.plan.lease.holder)
    try:
        _refuse_other_state(run.plan.run_id, state_etag, current())
        if not resume(grant):
            raise RefusedError(f"run {run.plan.run_id} is being resumed elsewhere. Nothing was done.")
    except Exception:
        with suppress(DredgeError):  # it expires
            run.lease.release(grant)
        raise


def check_resumable[P: RunPlan, S: State](
    run: PlannedRun[P], state_etag: str | None, current: Callable[[], Current[S]]
) -> None:
    """Check that `take_again` would let a local run go on now. Nothing is changed.

    Args:
        run: as it was planned.
        state_etag: of the pointer to the state when it was.
        current: reads the current state.

    Raises:
        LeaseHeldError: another run works on the repository.
        RefusedError: another run came in between.
    """
    run.lease.check_free(run.plan.lease.holder)
    _refuse_other_state(run.plan.run_id, state_etag, current())


def _refuse_other_state[S: State](run_id: str, state_etag: str | None, current: Current[S]) -> None:
    """Refuse to go on from a state that is not the last one any more. Nothing that lives would be lost, but the run
    would end without a state of its own."""
    ours = current.state is not None and current.state.run_id == run_id
    if current.etag != state_etag and not ours:
        raise RefusedError(
            f"run {run_id} cannot go on: another run was completed since it was planned. Nothing was done. Start a"
            " new run."
        )
