"""The plan of a collection as a value: `plan.json`. `planning` makes one, `run` works on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.errors import ConfigError, NotFoundError
from dredge.icechunk.collection.config import CollectConfig
from dredge.inventory import Inventory
from dredge.runs.folder import read_json
from dredge.runs.lease import LeaseGrant
from dredge.runs.versions import CLEAN, Version
from dredge.storage import StorageOptions, open_writer
from dredge.undo.ways import UndoWay

PLAN = "plan.json"


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

    @property
    def store_uri(self) -> str:
        """URI of what is collected: the repository."""
        return self.uri

    @property
    def repository(self) -> str:
        """What people call the repository: its URI."""
        return self.uri

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be deleted."""
        return self.config.dry_run

    def to_json(self) -> dict[str, Any]:
        """As the JSON object of `plan.json`."""
        return {
            "format": 1,
            "kind": "icechunk",
            "run_id": self.run_id,
            "uri": self.uri,
            "spec_version": self.spec_version,
            "run_uri": self.run_uri,
            "dry_run": self.config.dry_run,
            "created_at": self.created_at.isoformat(),
            "cutoff": self.cutoff.isoformat(),
            "mode": self.mode,
            "why_mode": self.why_mode,
            "state": None if self.state is None else self.state.to_json(),
            "state_etag": self.state_etag,
            "lease": self.lease.to_json(),
            "inventory": None if self.inventory is None else self.inventory.to_json(),
            "undo": self.undo.to_json(),
            "config": self.config.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CollectionPlan:
        """From the object that `to_json` made."""
        return cls(
            run_id=value["run_id"],
            uri=value["uri"],
            spec_version=value["spec_version"],
            run_uri=value["run_uri"],
            created_at=datetime.fromisoformat(value["created_at"]),
            cutoff=datetime.fromisoformat(value["cutoff"]),
            mode=value.get("mode", CLEAN),
            why_mode=value.get("why_mode", ""),
            state=None if value.get("state") is None else Version(**value["state"]),
            state_etag=value.get("state_etag"),
            lease=LeaseGrant.from_json(value["lease"]),
            config=CollectConfig.from_json(value["config"]),
            inventory=None if value.get("inventory") is None else Inventory.from_json(value["inventory"]),
            undo=UndoWay.from_json(value.get("undo")),
        )


def read_plan(run_uri: str, options: StorageOptions | None = None) -> CollectionPlan:
    """Read the plan of a collection.

    Args:
        run_uri: URI of the run's folder.
        options: None reads the environment.

    Raises:
        ConfigError: there is no run.
    """
    try:
        return CollectionPlan.from_json(read_json(open_writer(run_uri, options), PLAN))
    except NotFoundError:
        raise ConfigError(f"{run_uri} holds no {PLAN}: it is not the folder of a run") from None
