"""What a step needs to work on a run: its plan, its folder, its stores, and the lakeFS server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.namespaces import Keys
from dredge.gc.plan import PLAN, STATE, Plan, parse_plan
from dredge.lakefs import LakeFS, LakeFSClient
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import LEASE, Lease
from dredge.runs.run import PlannedRun
from dredge.storage import (
    ObjectWriter,
    StorageOptions,
    open_reader,
    open_writer,
    store_clock,
)


@dataclass(slots=True)
class Run(PlannedRun[Plan]):
    """A collection's run, with the lakeFS server. Make it with `Run.open`."""

    _client: LakeFS | None = field(default=None, repr=False)

    @classmethod
    def open(
        cls,
        run_uri: str,
        options: StorageOptions | None = None,
        client: LakeFS | None = None,
        clock: Clock = utc_now,
        plan: Plan | None = None,
    ) -> Run:
        """Open a run by the URI of its folder.

        Args:
            run_uri: as `plan_run` gave it.
            options: how to reach stores; None reads the environment. Tasks always read theirs.
            client: the lakeFS server; None reads the environment, when a step first needs it.
            clock: this machine's clock.
            plan: as `plan_run` gave it to this process; None reads it.

        Raises:
            ConfigError: there is no run, or one that another version planned.
            FormatError: its plan is damaged.
        """
        plan = plan or read_plan(run_uri, options)
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
    def keys(self) -> Keys:
        """Which keys are looked for in the repository's entries."""
        return Keys(namespace=self.plan.namespace)

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return make_lease(self.state, self.plan.config.safety.lease_seconds, self.store_now)

    @property
    def tasks_per_core(self) -> int:
        """How many tasks a core gets, so that a slow one delays little."""
        return self.plan.config.tuning.tasks_per_core


def read_plan(run_uri: str, options: StorageOptions | None = None) -> Plan:
    """Read the plan of a run that this version may carry out.

    Args:
        run_uri: URI of the run folder.
        options: None reads the environment.

    Raises:
        ConfigError: there is no run.
        FormatError: its plan is damaged, or of another format.
    """
    try:
        return parse_plan(read_json(open_writer(run_uri, options), PLAN))
    except NotFoundError:
        raise ConfigError(
            f"{run_uri} holds no {PLAN}: it is not the folder of a run. `dredge gc runs` lists them."
        ) from None


def open_state(namespace: str, options: StorageOptions | None = None) -> ObjectWriter:
    """Open the folder of a namespace that holds lease and committed index."""
    return open_writer(f"{namespace.rstrip('/')}/{STATE}", options)


def make_lease(state: ObjectWriter, seconds: float, now: Callable[[], datetime] | None = None) -> Lease:
    """The lease of a repository.

    Args:
        state: the folder of lease and index.
        seconds: how long the lease is held without renewal.
        now: the store's time; None asks for it each time.
    """
    return Lease(state, timedelta(seconds=seconds), now or (lambda: store_clock(state, "")), LEASE)
