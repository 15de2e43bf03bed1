"""The plan of a collection as a value: `plan.json`. `planning` makes one, `run` works on it.

What a step needs to work on a run: its plan, its folder, and its stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

from dredge.errors import ConfigError, NotFoundError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.state import Base, open_base
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.history import History
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import KnownSnapshots, read_history
from dredge.inventory.manifest import Inventory
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.payload import from_versioned
from dredge.runs.run import PlannedRun
from dredge.sets.live import LocatedSet
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.undo.pins import active_pins, sets_of
from dredge.undo.ways import UndoWay

PLAN = "plan.json"
FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """What a run works on; written once, without secrets.

    Attributes:
        run_id: descending xid of the store's time, so that newer runs sort first.
        uri: the repository.
        spec_version: 1 or 2.
        run_uri: the run's folder.
        created_at: the store's time when the plan was made.
        cutoff: only objects last modified strictly before this are candidates.
        mode: "clean" or "optimized".
        why_mode: half a sentence.
        state: what earlier runs left, when it can be used; an optimized run builds on it.
        state_etag: of the pointer to it; None when there was none.
        lease: the right to run.
        inventory: what is read instead of listing chunks; None lists them.
        undo: how what it deletes can be taken back.
        config: what the user asked for.
        kind: of plan.
        format: number of the format of plans.
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
        """URI of what is collected: the repository."""
        return self.uri

    @property
    def repository(self) -> str:
        """What people call the repository: its URI."""
        return self.uri

    @property
    def grace(self) -> timedelta:
        """How long garbage waits before another run may delete it."""
        return self.config.grace(self.undo.way, self.spec_version)

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be deleted."""
        return self.config.dry_run


def parse_plan(value: object) -> CollectionPlan:
    """Make a plan from the JSON of `plan.json`.

    Raises:
        FormatError: it is damaged, or of another format.
    """
    return from_versioned(CollectionPlan, value, FORMAT)


def read_plan(run_uri: str, options: StorageOptions | None = None) -> CollectionPlan:
    """Read the plan of a collection.

    Raises:
        ConfigError: there is no run.
    """
    try:
        return parse_plan(read_json(open_writer(run_uri, options), PLAN))
    except NotFoundError:
        raise ConfigError(f"{run_uri} holds no {PLAN}: it is not the folder of a run") from None


@dataclass
class Run(PlannedRun[CollectionPlan]):
    """A collection's run. Make it with `Run.open`."""

    @classmethod
    def open(
        cls,
        run_uri: str,
        options: StorageOptions | None = None,
        clock: Clock = utc_now,
        plan: CollectionPlan | None = None,
    ) -> Run:
        """Open a run by the URI of its folder.

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

    @cached_property
    def base(self) -> Base | None:
        """What the run builds on; None for a clean run.

        Raises:
            FormatError: the state that the plan names is not as it was.
        """
        if self.plan.mode == CLEAN or self.plan.state is None:
            return None
        return open_base(self.plan.state, self.state, self.options)

    def pinned(self) -> tuple[LocatedSet, ...]:
        """What was brought back and is kept for now, as of now.

        Raises:
            FormatError: a pin cannot be read, so nobody can tell what it holds.
        """
        return sets_of(active_pins(self.state, self.store_now()))

    def read_history(self, known: KnownSnapshots | None = None) -> History:
        """Read the history that this run works on: in a dry run perhaps the one after a planned expiration.

        Raises:
            NotFoundError: no repository.
            FormatError: a file that matters is missing or cannot be trusted.
            RefusedError: main is missing, or the history cannot be expired by time.
        """
        if known is None and self.base is not None:
            known = self.base.known
        return self.after_plan(read_history(self.reader, known=known))

    def after_plan(self, history: History) -> History:
        """Give the history after the expiration that a dry run takes as applied; the same without one.

        Raises:
            RefusedError: it cannot be expired by time.
        """
        after = self.plan.config.after
        if after is None:
            return history
        return plan_expiration(
            history,
            after.instant,
            rule=after.rule,
            delete_expired_branches=after.delete_expired_branches,
            delete_expired_tags=after.delete_expired_tags,
        ).after
