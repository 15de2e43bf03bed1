"""A run beside collections, which takes deletions back or makes them final: its lease, its folder, its one step.

It holds the repository's lease, so no collection works meanwhile, and leaves a plan, a ledger and a summary like one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dredge.errors import DredgeError
from dredge.gc.clocks import check_clocks
from dredge.gc.config import Safety
from dredge.gc.plan import PLAN, STATE
from dredge.gc.run import make_lease, open_state
from dredge.graveler.xid import new_descending_xid
from dredge.lakefs import LakeFS, LakeFSClient
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.run import PlannedRun
from dredge.storage import StorageOptions, open_reader, open_writer, store_clock

log = logging.getLogger("dredge")

PURGES = f"{STATE}/purges"
"""Folders of purges, relative to the namespace."""
METADATA_RUNS = f"{STATE}/metadata"
"""Folders of runs about metadata, relative to the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePlan:
    """What such a run works on.

    Attributes:
        run_id: its own id.
        repository: name in lakeFS.
        namespace: URI of the repository's storage namespace.
        created_at: the store's time when it began.
        lease: the right to run.
        asked: what was asked for, JSON.
    """

    run_id: str
    repository: str
    namespace: str
    created_at: datetime
    lease: LeaseGrant
    asked: Mapping[str, Any]

    @property
    def store_uri(self) -> str:
        """URI of the storage namespace."""
        return self.namespace

    def to_json(self) -> dict[str, Any]:
        """As the JSON object of `plan.json`."""
        return {
            "run_id": self.run_id,
            "repository": self.repository,
            "namespace": self.namespace,
            "created_at": self.created_at.isoformat(),
            "lease": self.lease.to_json(),
            "asked": dict(self.asked),
        }


@dataclass(slots=True)
class SideRun(PlannedRun[SidePlan]):
    """A run beside collections. Make it with `side_run`."""

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return make_lease(self.state, _SAFETY.lease_seconds)

    def gate(self, watched: str) -> GateConfig:
        """What each request that deletes must pass.

        Args:
            watched: key of what the driver writes after each look.
        """
        return GateConfig(
            lease=self.plan.lease,
            watch=watched,
            trusted_seconds=_SAFETY.gate_every_seconds,
            silence_seconds_max=_SAFETY.watch_silence_seconds_max,
        )


_SAFETY = Safety()
LOOK_SECONDS = _SAFETY.heads_every_seconds
"""How often the driver says that it still lives."""


@contextmanager
def side_run(
    repository: str,
    place: Callable[[str], str],
    what: str,
    asked: Mapping[str, Any],
    holder: str | None = None,
    client: LakeFS | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Iterator[SideRun]:
    """Begin a run beside collections, and give the lease back at its end.

    Args:
        repository: name in lakeFS.
        place: gives, for the namespace, the URI of the folder that is to hold this run's.
        what: it is, such as "restore".
        asked: what was asked for, JSON.
        holder: who takes the lease; the same one gets it again after it died. None: this run alone.
        client: None reads the environment.
        options: None reads the environment.
        clock: this machine's clock.

    Raises:
        LeaseHeldError: another run works on the repository.
        NotFoundError: there is no such repository.
        RefusedError: the store's clock and this machine's differ too much.
    """
    found = (client or LakeFSClient.from_env()).repository(repository)
    state = open_state(found.namespace, options)
    before, now = clock(), store_clock(state, "")
    check_clocks((now - before).total_seconds(), _SAFETY.clock_skew_seconds_max)
    run_id = new_descending_xid(now)
    lease = make_lease(state, _SAFETY.lease_seconds)
    grant = lease.acquire(holder or f"{what} {run_id}")
    try:
        plan = SidePlan(
            run_id=run_id,
            repository=repository,
            namespace=found.namespace,
            created_at=now,
            lease=grant,
            asked=asked,
        )
        writer = open_writer(f"{place(found.namespace).rstrip('/')}/{run_id}", options)
        writer.put_if_absent(PLAN, json.dumps(plan.to_json(), indent=1, sort_keys=True).encode())
        log.info("%s %s of %s: folder %s", what, run_id, repository, writer.uri)
        reader = open_reader(found.namespace, options)
        yield SideRun(plan, RunFolder(writer, run_id), reader, state, clock, options)
    finally:
        with suppress(DredgeError):
            lease.release(grant)
