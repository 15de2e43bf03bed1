"""The plan of a run: a value that later steps read, without secrets, never changed once written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.config import CLEAN, GCConfig
from dredge.gc.namespaces import Keys
from dredge.inventory.manifest import Inventory
from dredge.lakefs import LakeFS, LakeFSClient
from dredge.runs.clock import Clock, utc_now
from dredge.runs.coverage import BEGINNING, END, Coverage
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import LEASE, Lease, LeaseGrant
from dredge.runs.payload import from_versioned
from dredge.runs.run import PlannedRun
from dredge.runs.versions import Version
from dredge.storage import (
    ObjectWriter,
    StorageOptions,
    open_reader,
    open_writer,
    store_clock,
)
from dredge.undo.ways import UndoWay

PLAN = "plan.json"
FORMAT = 4
"""Of plans, and so of what the steps of their runs leave. A run of another format is neither carried out nor read."""
RUNS = "_lakefs/retention/gc/unified"
"""Where lakeFS's own collector keeps its runs, relative to the namespace; ours lie beside them."""
STATE = "_lakefs/retention/gc/dredge"
"""Lease and committed index, relative to the namespace, whatever run root a user names."""
METADATA_RUNS = f"{STATE}/metadata"
"""Runs about metadata, relative to the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run works on, and how.

    Attributes:
        run_id: descending xid of the store's time, so that newer runs sort first.
        repository: name in lakeFS.
        namespace: URI of the repository's storage namespace, as lakeFS words it.
        run_uri: URI of the run folder.
        created_at: the store's time when the plan was made.
        cutoff: only objects last modified strictly before this are candidates.
        store_ahead_seconds: the store's clock minus this machine's.
        server_ahead_seconds: a lakeFS server's clock minus the store's: the difference that is certain; None
            when its answer told no time.
        lease: the right to run.
        config: what the user asked for.
        default_branch: the repository's.
        mode: "clean" or "optimized"; never "auto", which the user may ask for.
        why_mode: why this mode, as half a sentence.
        state: the version of the state that earlier runs left; an optimized run builds on it, a clean one replaces
            it. None when there is none.
        state_etag: ETag of the pointer to it; None when there is none.
        covered: intervals of slices that are not listed.
        again: intervals of slices that are listed nevertheless, because a restore has brought objects back into them.
        namespaces: storage namespace of every repository of the server, by name, when the plan was made.
        inventory: what is read instead of a listing; None lists the store.
        undo: how what it deletes can be taken back.
        format: number of the format of plans.
    """

    run_id: str
    repository: str
    namespace: str
    run_uri: str
    created_at: datetime
    cutoff: datetime
    store_ahead_seconds: float
    server_ahead_seconds: float | None = None
    lease: LeaseGrant
    config: GCConfig
    default_branch: str
    mode: str = CLEAN
    why_mode: str = ""
    state: Version | None = None
    state_etag: str | None = None
    covered: Coverage = field(default_factory=Coverage)
    again: Coverage = field(default_factory=Coverage)
    namespaces: Mapping[str, str] = field(default_factory=dict)
    inventory: Inventory | None = None
    undo: UndoWay = field(default_factory=UndoWay)
    format: int = FORMAT

    @property
    def store_uri(self) -> str:
        """URI of what is collected: the storage namespace."""
        return self.namespace

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be deleted."""
        return self.config.dry_run

    @property
    def covers_until(self) -> datetime:
        """Slices opened before this need not be listed by later runs once this run has listed them."""
        seen_at = self.created_at
        if self.inventory is not None:
            if self.inventory.created_at is None:  # nobody knows what it could not see
                return BEGINNING
            seen_at = min(seen_at, self.inventory.created_at)
        return seen_at - timedelta(hours=self.config.slice_margin_hours)

    @property
    def window(self) -> tuple[datetime, datetime]:
        """Half-open interval: slices opened from its begin on and before its end are listed."""
        begin, end = self.config.window
        if self.mode == CLEAN:
            begin = end = None
        margin = timedelta(hours=self.config.slice_margin_hours)
        return begin - margin if begin is not None else BEGINNING, end if end is not None else END


def parse_plan(value: object) -> Plan:
    """Make a plan from the JSON of `plan.json`.

    Raises:
        FormatError: it is damaged, or of another format.
        ConfigError: a setting of it is wrong.
    """
    return from_versioned(Plan, value, FORMAT)


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
