"""A planned run, as its driver works on it: what the collectors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from dredge.errors import ConfigError, DredgeError, RefusedError
from dredge.runs.clock import Clock, StoreClock, running_seconds, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.steps import PLAN, StepRecord, perform, plan_digest
from dredge.runs.summary import StepOutput, StepSummary
from dredge.runs.tasks import PartitionFunction, Stores, TaskRunner, log_progress
from dredge.runs.versions import Current, State
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions
from dredge.storage.parallel import at_once

_HELD_SECONDS = 60


class RunPlan(Protocol):
    """What every plan says."""

    @property
    def run_id(self) -> str:
        """Descending xid of the store's time, so that newer runs sort first."""

    @property
    def lease(self) -> LeaseGrant:
        """The right to run."""

    @property
    def store_uri(self) -> str:
        """URI of what is collected."""


@dataclass(slots=True)
class PlannedRun[P: RunPlan](ABC):
    """One run: its plan, its folder, and its stores.

    Attributes:
        plan: the run's plan.
        folder: the run folder.
        reader: on what is collected.
        state: on the folder with lease and index.
        clock: this machine's clock.
        options: how stores are reached by the driver; tasks read the same settings from their environment.
    """

    plan: P
    folder: RunFolder
    reader: ObjectReader
    state: ObjectWriter
    clock: Clock = utc_now
    options: StorageOptions | None = None
    _store_clock: StoreClock | None = field(default=None, repr=False, compare=False)
    _held_at: float | None = field(default=None, repr=False, compare=False)

    @property
    @abstractmethod
    def lease(self) -> Lease:
        """The repository's lease."""

    @property
    def tasks_per_core(self) -> int:
        """How many tasks a core gets, so that a slow one delays little."""
        return 1

    def store_now(self) -> datetime:
        """The object store's time."""
        if self._store_clock is None:
            self._store_clock = StoreClock(self.state, self.clock)
        return self._store_clock.now()

    def step(
        self,
        output: type[StepOutput],
        body: Callable[[StepRecord], None],
        inputs: Sequence[type[StepOutput]] | None = None,
    ) -> StepSummary:
        """Do a step of this run under its lease; see `perform`.

        Args:
            output: of the step; it names the steps that this one reads.
            body: does the work and notes it in the record.
            inputs: that this run's step reads, where it depends on the run; None for the output's own.

        Raises:
            LeaseHeldError: another run has taken over.
        """

        def under_lease(record: StepRecord) -> None:
            with self.lease.kept(self.plan.lease, record.attempt.is_newest):
                body(record)

        # The first step of a chain reads nothing but the plan.
        read = [item.STEP for item in (output.INPUTS if inputs is None else inputs)]
        with self.folder.keeping():
            roots = {} if read else {PLAN: plan_digest(self.folder)}
            right = self._hold_lease
            return perform(self.folder, output.STEP, read, under_lease, self.clock, right, roots)

    def check_right(self, now: datetime) -> None:
        """Look whether the run has its lease, and whether the try at work is the newest one: comes before something
        outside of the run's folder is replaced.

        Args:
            now: the store's time.

        Raises:
            OvertakenError: a later try was begun.
            LeaseHeldError: the lease is lost.
        """
        with at_once() as ask:
            lease = ask(self.lease.check, self.plan.lease, now)
            if self.folder.attempt is not None:
                self.folder.attempt.check()
        lease.result()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Do several steps one after the other in this process; see `RunFolder.keeping`."""
        self._held_at = None
        with self.folder.keeping(goes_on=True):
            yield

    def _hold_lease(self) -> None:
        """What stood a moment ago can only have gone to somebody who goes on with this very run. Before anything is
        deleted the lease is read again, and by each worker's gate."""
        held_at, now = self._held_at, running_seconds()
        if not self.folder.goes_on or held_at is None or now - held_at > _HELD_SECONDS:
            self.lease.hold(self.plan.lease, self.clock())
            self._held_at = now

    def spread[C, T, R](
        self,
        runner: TaskRunner,
        step: str,
        fn: PartitionFunction[C, T, R],
        config: C,
        tasks: Sequence[T],
        unit: str,
        total: int | None = None,
    ) -> list[R]:
        """Run a partition function over tasks, with a line of progress every few seconds.

        Args:
            runner: spreads the tasks.
            step: name of the step, for logs and progress.
            fn: the partition function.
            config: the same for all tasks.
            tasks: one a call; nothing is started when there are none.
            unit: what is counted.
            total: of how many; None when nobody knows.

        Returns:
            The results in the order of the tasks.
        """
        if not tasks:
            return []
        self.folder.settle()  # tasks may read what the driver wrote
        with log_progress(self.folder, step, unit, total) as progress:
            stores = Stores(
                run_uri=self.folder.uri,
                run_id=self.folder.run_id,
                attempt=None if self.folder.attempt is None else self.folder.attempt.named,
                store_uri=self.plan.store_uri,
                state_uri=self.state.uri,
                progress=progress,
            )
            return fn.spread(runner, step, stores, config, tasks)

    def num_tasks(self, runner: TaskRunner, items: int) -> int:
        """How many tasks a number of items is worth."""
        return max(1, min(items, runner.default_parallelism * self.tasks_per_core))


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
