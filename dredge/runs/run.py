"""A planned run in its driver, for all collectors; and how a local run is resumed."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from dredge.errors import ConfigError, DredgeError, RefusedError
from dredge.runs.clock import Clock, StoreClock, running_seconds, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.lease import Lease, LeaseGrant, hand_over
from dredge.runs.parts import BY_DIGEST, cache_parts
from dredge.runs.payload import to_json
from dredge.runs.steps import PLAN, Ahead, StepRecord, perform, plan_digest
from dredge.runs.summary import StepOutput, StepSummary
from dredge.runs.tasks import LocalRunner, PartitionFunction, Stores, TaskRunner, log_progress
from dredge.runs.versions import read_pointer
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_writer
from dredge.storage.parallel import at_once

_HELD_SECONDS = 60
_KEPT_BYTES = 32 << 20


class RunPlan(Protocol):
    """Fields of every plan."""

    @property
    def run_id(self) -> str:
        """Descending xid of the store's time, newer runs sort first."""

    @property
    def lease(self) -> LeaseGrant:
        """The lease of the run."""

    @property
    def store_uri(self) -> str:
        """URI of the collected storage namespace or repository."""


@dataclass(slots=True)
class PlannedRun[P: RunPlan](ABC):
    """A run with its plan, its folder, and its stores.

    Attributes:
        state: on the folder with lease and index.
        options: store options of the driver; tasks read theirs from their environment.
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
        """Number of tasks for each core; several reduce the delay of a slow one."""
        return 1

    def store_now(self) -> datetime:
        """Return the object store's time."""
        if self._store_clock is None:
            self._store_clock = StoreClock(self.state, self.clock)
        return self._store_clock.now()

    def step(
        self,
        output: type[StepOutput],
        body: Callable[[StepRecord], None],
        inputs: Sequence[type[StepOutput]] | None = None,
        ahead: Ahead[Any] | None = None,
    ) -> StepSummary:
        """Run a step under the run's lease; see `perform`. `inputs`: for a step whose inputs depend on the run; None
        takes the output's. Raises LeaseHeldError if another run has the lease."""

        def under_lease(record: StepRecord) -> None:
            with self.lease.kept(self.plan.lease, record.attempt.is_newest):
                body(record)

        # The first step of a chain reads nothing but the plan.
        read = [item.STEP for item in (output.INPUTS if inputs is None else inputs)]
        with self.folder.keeping():
            roots = {} if read else {PLAN: plan_digest(self.folder)}
            right = self._hold_lease
            return perform(self.folder, output.STEP, read, under_lease, self.clock, right, roots, ahead)

    def check_right(self, now: datetime) -> None:
        """Check the lease and the try before a file outside of the run's folder is replaced.

        Raises:
            OvertakenError: there is a later try.
            LeaseHeldError: the lease is lost.
        """
        with at_once() as ask:
            lease = ask(self.lease.check, self.plan.lease, now)
            if self.folder.attempt is not None:
                self.folder.attempt.check()
        lease.result()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Run several steps in this process; see `RunFolder.keeping`. Immutable files of the store are read once."""
        try:
            with (
                self.folder.keeping(goes_on=True),
                cache_parts(self.reader.uri, _KEPT_BYTES),
                cache_parts(BY_DIGEST, _KEPT_BYTES),
                at_once() as ask,
            ):
                ask(self.store_now)  # the first step that needs the store's clock finds it read
                yield
        finally:
            self._held_at = None

    def _hold_lease(self) -> None:
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
        """Run a partition function over tasks, and log progress.

        Args:
            tasks: one for each call; may be empty.
            total: number of units; None if unknown.

        Returns:
            The results in the order of the tasks.
        """
        if not tasks:
            return []
        if not (isinstance(runner, LocalRunner) and runner.processes == 0):
            self.folder.settle()  # tasks in other processes may read what the driver wrote
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
        """Return the number of tasks for a number of items."""
        return max(1, min(items, runner.default_parallelism * self.tasks_per_core))


class CollectionPlan(RunPlan, Protocol):
    """Fields of the plans of collections."""

    @property
    def state_etag(self) -> str | None:
        """ETag of the state's pointer when the run was planned; None without one."""


@dataclass(slots=True)
class CollectionRun[P: CollectionPlan](PlannedRun[P]):
    """A run that builds on the state of earlier runs."""

    def refuse_other_state(self) -> None:
        """Refuse to continue after another run has advanced the state."""
        etag, advanced_by = read_pointer(self.state)
        if etag != self.plan.state_etag and advanced_by != self.plan.run_id:
            raise RefusedError(
                f"run {self.plan.run_id} cannot go on: another run was completed since it was planned."
                " Nothing was done. Start a new run."
            )


def write_plan(
    plan: RunPlan, run_uri: str, options: StorageOptions | None, lease: Lease, keep_lease: bool
) -> None:
    """Write the plan of a run into its new folder. If that fails, the lease is released, unless `keep_lease`: the
    caller's orchestrator has it."""
    try:
        data = json.dumps(to_json(plan), indent=1, sort_keys=True).encode()
        open_writer(run_uri, options).put_if_absent(f"{PLAN}.json", data)
    except DredgeError:
        if not keep_lease:
            with suppress(DredgeError):
                lease.release(plan.lease)
        raise


def local_holder(run_id: str) -> str:
    """Return the lease holder of a run without an orchestrator."""
    return f"run {run_id}"


def is_local(run: PlannedRun[Any]) -> bool:
    """Whether a run has no orchestrator."""
    return bool(run.plan.lease.holder == local_holder(run.plan.run_id))


def resume_local(run: CollectionRun[Any]) -> None:
    """Take the lease of a local run again, and write it into the plan.

    Raises:
        ConfigError: the run has an orchestrator.
        LeaseHeldError: another run is in progress.
        RefusedError: another run was completed in between, or another process resumed this one.
    """
    holder = run.plan.lease.holder
    if not is_local(run):
        raise ConfigError(
            f"{run.folder.uri} is a run of {holder}. Nothing was done. Clear its tasks there; they continue after the"
            " last complete step."
        )
    grant = run.lease.acquire(holder)
    try:
        run.refuse_other_state()
        if not hand_over(run.folder.writer, f"{PLAN}.json", grant):
            raise RefusedError(f"run {run.plan.run_id} is being resumed elsewhere. Nothing was done.")
    except Exception:
        with suppress(DredgeError):  # it expires
            run.lease.release(grant)
        raise


def check_resumable(run: CollectionRun[Any]) -> None:
    """Check whether `resume_local` would succeed now. No changes.

    Raises:
        LeaseHeldError: another run is in progress.
        RefusedError: another run was completed in between.
    """
    run.lease.check_free(run.plan.lease.holder)
    run.refuse_other_state()
