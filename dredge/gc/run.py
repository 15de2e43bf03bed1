"""What a step needs to work on a run: its plan, its folder, and the doors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.plan import FORMAT, PLAN, STATE, Plan
from dredge.lakefs import LakeFS, LakeFSClient
from dredge.runs import chain
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import LEASE, Lease
from dredge.runs.perform import StepRecord, perform
from dredge.runs.progress import watch
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import Json, PartitionFunction, TaskRunner
from dredge.storage import (
    ObjectReader,
    ObjectWriter,
    StorageOptions,
    open_reader,
    open_writer,
    store_clock,
)


@dataclass(slots=True)
class Run:
    """The doors of one run. Make it with `Run.open`.

    Attributes:
        plan: the run's plan.
        folder: the run folder.
        reader: on the storage namespace.
        state: on the folder with lease and committed index.
        clock: this machine's clock.
        options: how stores are reached by the driver; tasks read the same settings from their environment.
    """

    plan: Plan
    folder: RunFolder
    reader: ObjectReader
    state: ObjectWriter
    clock: Clock = utc_now
    options: StorageOptions | None = None
    _client: LakeFS | None = field(default=None, repr=False)

    @classmethod
    def open(
        cls,
        run_uri: str,
        options: StorageOptions | None = None,
        client: LakeFS | None = None,
        clock: Clock = utc_now,
    ) -> Run:
        """Open a run by the URI of its folder.

        Args:
            run_uri: as `plan_run` gave it.
            options: how to reach stores; None reads the environment. Tasks always read theirs.
            client: the lakeFS server; None reads the environment, when a step first needs it.
            clock: this machine's clock.

        Raises:
            ConfigError: there is no run, or one that another version planned.
            FormatError: its plan is damaged.
        """
        plan = read_plan(run_uri, options)
        return cls(
            plan=plan,
            folder=RunFolder(open_writer(run_uri, options), plan.run_id),
            reader=open_reader(plan.namespace, options),
            state=open_state(plan.namespace, options),
            clock=clock,
            options=options,
            _client=client,
        )

    @property
    def client(self) -> LakeFS:
        """The lakeFS server."""
        if self._client is None:
            self._client = LakeFSClient.from_env()
        return self._client

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return make_lease(self.state, self.plan.config.safety.lease_seconds)

    def store_now(self) -> datetime:
        """The object store's time."""
        return store_clock(self.state, "")

    def step(self, name: str, inputs: Sequence[str], body: Callable[[StepRecord], None]) -> StepSummary:
        """Do a step of this run under its lease; see `perform`.

        Raises:
            LeaseHeldError: another run has taken over.
        """

        def under_lease(record: StepRecord) -> None:
            with self.lease.kept(self.plan.lease, record.attempt.is_newest):
                body(record)

        # The first step of a chain reads nothing but the plan.
        roots = {} if inputs else {chain.PLAN: chain.plan_digest(self.folder)}
        right = partial(self.lease.renew, self.plan.lease)
        return perform(self.folder, name, inputs, under_lease, self.clock, right, roots)

    def spread(
        self,
        runner: TaskRunner,
        step: str,
        fn: PartitionFunction,
        config: Json,
        tasks: Sequence[Json],
        unit: str,
        total: int | None = None,
    ) -> list[Json]:
        """Run a partition function over tasks, with a line of progress every few seconds.

        Args:
            runner: spreads the tasks.
            step: name of the step, for logs and progress.
            fn: the partition function.
            config: its configuration; the doors' URIs are added (`run_uri`, `run_id`, `try`,
                `namespace`, `state_uri`).
            tasks: one a call; nothing is started when there are none.
            unit: what is counted.
            total: of how many.
        """
        if not tasks:
            return []
        doors = {
            **self.folder.task_config(),
            "namespace": self.plan.namespace,
            "state_uri": self.state.uri,
        }
        with watch(self.folder, step, unit, total) as where:
            return runner.run(step, fn, {**doors, **config, "progress": where}, tasks)

    def hands(self, runner: TaskRunner, items: int) -> int:
        """How many tasks a number of items is worth."""
        return max(1, min(items, runner.default_parallelism * self.plan.config.tuning.tasks_per_core))


def read_plan(run_uri: str, options: StorageOptions | None = None) -> Plan:
    """Read the plan of a run that this version may carry out.

    Args:
        run_uri: folder of the run.
        options: None reads the environment.

    Raises:
        ConfigError: there is no run, or one that another version planned.
        FormatError: its plan is damaged.
    """
    try:
        value = read_json(open_writer(run_uri, options), PLAN)
        plan = Plan.from_json(value)
    except NotFoundError:
        raise ConfigError(
            f"{run_uri} holds no {PLAN}: it is not the folder of a run. `dredge gc runs` lists them."
        ) from None
    if value["format"] != FORMAT:
        raise ConfigError(
            f"{run_uri} was planned by another version of Dredge, whose checks were others. Nothing was"
            " done. Start a new run; `dredge gc report` shows what became of this one."
        )
    return plan


def open_state(namespace: str, options: StorageOptions | None = None) -> ObjectWriter:
    """Open the folder of a namespace that holds lease and committed index."""
    return open_writer(f"{namespace.rstrip('/')}/{STATE}", options)


def make_lease(state: ObjectWriter, seconds: float) -> Lease:
    """Make the door to a repository's lease."""
    return Lease(state, timedelta(seconds=seconds), lambda: store_clock(state, ""), LEASE)
