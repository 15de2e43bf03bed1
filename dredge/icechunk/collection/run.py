"""The plan of a collection (`plan.json`), and an opened run: plan, folder and stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

from dredge.errors import ConfigError, NotFoundError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.index import cache_uri
from dredge.icechunk.collection.state import Base, open_base
from dredge.icechunk.expiration.kept_refs import plan_for
from dredge.icechunk.history import History
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import KnownSnapshots, read_history
from dredge.inventory.manifest import Inventory
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.parts import cache_parts
from dredge.runs.payload import from_versioned
from dredge.runs.run import PlannedRun
from dredge.runs.versions import CLEAN, Version
from dredge.sets.live import LocatedSet
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.undo.pins import active_pins, sets_of
from dredge.undo.ways import UndoWay

PLAN = "plan.json"
FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """The plan of a run; written once, without secrets.

    Attributes:
        run_id: descending xid of the store's time: newer runs sort first.
        created_at: the store's time.
        cutoff: only objects last modified strictly before this are candidates.
        mode: "clean" or "optimized".
        state: state of earlier runs; an optimized run builds on it.
        state_etag: of the pointer to it; None without a pointer.
        inventory: is read instead of a listing of chunks; None lists them.
    """

    run_id: str
    uri: str
    spec_version: int
    run_uri: str
    created_at: datetime
    cutoff: datetime
    mode: str
    why_mode: str
    state: Version | None
    state_etag: str | None
    lease: LeaseGrant
    config: CollectConfig
    inventory: Inventory | None = None
    undo: UndoWay = field(default_factory=UndoWay)
    kind: Literal["icechunk"] = "icechunk"
    format: int = FORMAT

    @property
    def store_uri(self) -> str:
        """URI of the collected store: the repository."""
        return self.uri

    @property
    def repository(self) -> str:
        """Name of the repository in texts: its URI."""
        return self.uri

    @property
    def grace(self) -> timedelta:
        """Wait between finding garbage and deleting it, by different runs."""
        return self.config.grace(self.undo.way, self.spec_version)

    @property
    def dry_run(self) -> bool:
        """Whether this is a dry run."""
        return self.config.dry_run


def parse_plan(value: object) -> CollectionPlan:
    """Parse the JSON of `plan.json`."""
    return from_versioned(CollectionPlan, value, FORMAT)


def read_plan(run_uri: str, options: StorageOptions | None = None) -> CollectionPlan:
    """Read the plan of a run.

    Raises:
        ConfigError: there is no run.
    """
    try:
        return parse_plan(read_json(open_writer(run_uri, options), PLAN))
    except NotFoundError:
        raise ConfigError(f"{run_uri} holds no {PLAN}: it is not the folder of a run") from None


@dataclass
class Run(PlannedRun[CollectionPlan]):
    """A run of a collection. Make it with `Run.open`."""

    @classmethod
    def open(
        cls,
        run_uri: str,
        options: StorageOptions | None = None,
        clock: Clock = utc_now,
        plan: CollectionPlan | None = None,
    ) -> Run:
        """Open a run by the URI of its folder; reads the plan unless it is given.

        Raises:
            ConfigError: there is no run.
        """
        plan = plan or read_plan(run_uri, options)
        return cls(
            plan=plan,
            folder=RunFolder(open_writer(run_uri, options), plan.run_id),
            reader=open_reader(plan.uri, options),
            state=open_state(plan.uri, options),
            clock=clock,
            options=options,
        )

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return make_lease(self.state, self.plan.config.safety.lease_seconds, self.store_now)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Run several steps in this process; caches the parts of the index, too."""
        with cache_parts(cache_uri(self.state)), super().going_on():
            yield

    @property
    def base(self) -> Base | None:
        """The state below this run; None for a clean run."""
        return None if self.plan.mode == CLEAN else self.previous

    @cached_property
    def previous(self) -> Base | None:
        """The state of the run before; None without one."""
        return None if self.plan.state is None else open_base(self.plan.state, self.state, self.options)

    def pinned(self) -> tuple[LocatedSet, ...]:
        """Restored objects kept for now."""
        return sets_of(active_pins(self.state, self.store_now()))

    def read_history(self, known: KnownSnapshots | None = None) -> History:
        """Read the history, in a dry run after its planned expiration; `known` has parents of snapshots (spec 1).

        Raises:
            NotFoundError: no repository.
            FormatError: an important file is missing or damaged.
            RefusedError: main is missing, or the history cannot be expired by time.
        """
        if known is None and self.base is not None:
            known = self.base.known
        return self.after_plan(read_history(self.reader, known=known))

    def after_plan(self, history: History) -> History:
        """The history after the planned expiration of a dry run, or unchanged.

        Raises:
            RefusedError: it cannot be expired by time.
        """
        after = self.plan.config.after
        if after is None:
            return history
        return plan_for(self.reader, history, after, utc_now()).after
