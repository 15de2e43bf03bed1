"""The plan of a collection as a value: `plan.json`. `planning` makes one, `run` works on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from dredge.errors import ConfigError, NotFoundError
from dredge.icechunk.collection.config import CollectConfig
from dredge.inventory.manifest import Inventory
from dredge.runs.folder import read_json
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_versioned
from dredge.runs.versions import Version
from dredge.storage import StorageOptions, open_writer
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

    Args:
        run_uri: URI of the run's folder.
        options: None reads the environment.

    Raises:
        ConfigError: there is no run.
    """
    try:
        return parse_plan(read_json(open_writer(run_uri, options), PLAN))
    except NotFoundError:
        raise ConfigError(f"{run_uri} holds no {PLAN}: it is not the folder of a run") from None
