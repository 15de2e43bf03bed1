"""The plan of a run, and its folder, stores and lakeFS server for the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dredge.gc.config import CLEAN, GCConfig
from dredge.gc.namespaces import Keys
from dredge.inventory.manifest import Inventory
from dredge.lakefs import LakeFSClient
from dredge.runs.clock import BEGINNING, END, Clock, Coverage, utc_now
from dredge.runs.lease import LEASE, Lease, LeaseGrant
from dredge.runs.payload import from_versioned
from dredge.runs.run import CollectionRun, read_stored_plan
from dredge.runs.tasks import TaskRunner
from dredge.runs.versions import Version
from dredge.storage import ObjectWriter, StorageOptions, open_writer, store_clock
from dredge.undo.ways import UndoWay

PLAN = "plan.json"
FORMAT = 4
"""Of plans and results of steps. Runs of another format are neither resumed nor read."""
RUNS = "_lakefs/retention/gc/unified"
"""Run folders of lakeFS's own collector and of Dredge, relative to the namespace."""
STATE = "_lakefs/retention/gc/dredge"
"""Lease and committed index, relative to the namespace; independent of the run root."""
METADATA_RUNS = f"{STATE}/metadata"
"""Collections of metadata, relative to the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run: without secrets, and unchanged after it is written."""

    run_id: str  # descending xid of the store's time, so newer runs sort first
    repository: str
    namespace: str  # as lakeFS returns it
    run_uri: str
    created_at: datetime  # the store's time
    cutoff: datetime  # candidates are last modified strictly before it
    store_ahead_seconds: float  # the store's clock minus this machine's
    # the proved difference of a lakeFS server's clock minus the store's; None without a time in its response
    server_ahead_seconds: float | None = None
    lease: LeaseGrant
    config: GCConfig
    default_branch: str
    mode: str = CLEAN  # "clean" or "optimized"
    why_mode: str = ""  # reason for the mode
    # version of the state of earlier runs, or None. An optimized run builds on it, a clean run replaces it.
    state: Version | None = None
    state_etag: str | None = None  # ETag of the pointer to it, or None
    covered: Coverage = field(default_factory=Coverage)  # intervals of slices without another listing
    # intervals of slices with another listing after a restore
    again: Coverage = field(default_factory=Coverage)
    # storage namespace of every repository of the server, by name
    namespaces: Mapping[str, str] = field(default_factory=dict)
    inventory: Inventory | None = None  # replaces the listing; None lists the store
    undo: UndoWay = field(default_factory=UndoWay)
    format: int = FORMAT

    @property
    def store_uri(self) -> str:
        """URI of the storage namespace."""
        return self.namespace

    @property
    def dry_run(self) -> bool:
        """Whether the run deletes no objects."""
        return self.config.dry_run

    @property
    def covers_until(self) -> datetime:
        """Slices opened before this time need no later listing."""
        seen_at = self.created_at
        if self.inventory is not None:
            if self.inventory.created_at is None:  # the age of its newest rows is unknown
                return BEGINNING
            seen_at = min(seen_at, self.inventory.created_at)
        return seen_at - timedelta(hours=self.config.slice_margin_hours)

    @property
    def window(self) -> tuple[datetime, datetime]:
        """Half-open interval of the opening times of listed slices."""
        begin, end = self.config.window
        if self.mode == CLEAN:
            begin = end = None
        margin = timedelta(hours=self.config.slice_margin_hours)
        return begin - margin if begin is not None else BEGINNING, end if end is not None else END

    @property
    def covered_after(self) -> Coverage:
        """Intervals of slices without another listing after this run."""
        begin, end = self.window
        return self.covered.with_interval(begin, min(end, self.covers_until))


def parse_plan(value: object) -> Plan:
    """Make a plan from the JSON of `plan.json`."""
    return from_versioned(Plan, value, FORMAT)


@dataclass(slots=True)
class Run(CollectionRun[Plan]):
    """A collection's run with its lakeFS server; made with `Run.open`."""

    # refs and commits of the key-value store, read with the staging records by a try of `mark_uncommitted` in
    # this process, by its number
    commits_of_try: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)
    _client: LakeFSClient | None = field(default=None, repr=False)
    _keys: Keys | None = None

    @classmethod
    def open(
        cls,
        run_uri: str,
        options: StorageOptions | None = None,
        client: LakeFSClient | None = None,
        clock: Clock = utc_now,
        plan: Plan | None = None,
    ) -> Run:
        """Open a run by the URI of its folder, with its plan if it was just written. Raises ConfigError: no such run,
        or planned by another version."""
        return cls._open(run_uri, options, clock, plan, read_plan, open_state, _client=client)

    @property
    def client(self) -> LakeFSClient:
        """The lakeFS server."""
        if self._client is None:
            self._client = LakeFSClient.from_env()
        return self._client

    @property
    def keys(self) -> Keys:
        """The keys to find in entries: those of the namespace, unless this is a view of a run for others."""
        return self._keys or Keys(namespace=self.plan.namespace)

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return make_lease(self.state, self.plan.config.safety.lease_seconds, self.store_now)

    @property
    def tasks_per_core(self) -> int:
        """Number of tasks for each core."""
        return self.plan.config.tuning.tasks_per_core

    def num_tasks_of(self, runner: TaskRunner, items: int, rows: int) -> int:
        """Return the number of tasks for items with some rows: more than `num_tasks` where one would have too many."""
        return min(items, max(self.num_tasks(runner, items), -(-rows // self.plan.config.tuning.task_rows)))


def read_plan(run_uri: str, options: StorageOptions | None = None) -> Plan:
    """Read the plan of a run. Raises ConfigError: no such run."""
    return read_stored_plan(run_uri, parse_plan, options)


def open_state(namespace: str, options: StorageOptions | None = None) -> ObjectWriter:
    """Open the folder of lease and index."""
    return open_writer(f"{namespace.rstrip('/')}/{STATE}", options)


def make_lease(state: ObjectWriter, seconds: float, now: Callable[[], datetime] | None = None) -> Lease:
    """Return the lease of a repository, for a time without a renewal, by the store's time (None asks the store each
    time)."""
    return Lease(state, timedelta(seconds=seconds), now or (lambda: store_clock(state, "")), LEASE)
