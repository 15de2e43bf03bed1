"""The plan of a run: a value that later steps read, without secrets, never changed once written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.gc.config import CLEAN, GCConfig
from dredge.inventory.manifest import Inventory
from dredge.runs.clock import BEGINNING, END, Coverage
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_versioned
from dredge.runs.versions import Version
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
