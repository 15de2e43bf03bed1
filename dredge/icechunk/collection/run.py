"""What a step needs to work on a run: its plan, its folder, and its stores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dredge.icechunk.collection.plan import CollectionPlan, read_plan
from dredge.icechunk.collection.state.base import Base, base_of
from dredge.icechunk.expiration.kept_refs import plan_for
from dredge.icechunk.history import History
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import KnownSnapshots, read_history
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.lease import Lease
from dredge.runs.run import PlannedRun
from dredge.sets.live import LocatedSet
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.undo.pins import active_pins, sets_of


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

        Args:
            run_uri: as `CollectionPlan.run_uri` says.
            options: how to reach stores; None reads the environment. Tasks always read theirs.
            clock: this machine's clock.
            plan: as `plan_collection` gave it to this process; None reads it.

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
        return base_of(self.plan, self.state, self.options)

    def pinned(self) -> tuple[LocatedSet, ...]:
        """What was brought back and is kept for now, as of now.

        Raises:
            FormatError: a pin cannot be read, so nobody can tell what it holds.
        """
        return sets_of(active_pins(self.state, self.store_now()))

    def read_history(self, known: KnownSnapshots | None = None) -> History:
        """Read the history that this run works on: in a dry run perhaps the one after a planned expiration.

        Args:
            known: spec 1: as for `repository.read_history`; None takes what the run builds on.

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

        Args:
            history: as it is now.

        Raises:
            RefusedError: it cannot be expired by time.
        """
        after = self.plan.config.after
        if after is None:
            return history
        return plan_for(self.reader, history, after, utc_now()).after
