"""A run beside collections, which takes deletions back or makes them final: its lease, its folder, its one step.

It holds the repository's lease, so no collection works meanwhile, and leaves a plan, a ledger and a summary like one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import DredgeError
from dredge.runs.clock import Clock, check_clocks, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.payload import to_json
from dredge.runs.run import PlannedRun
from dredge.storage import ObjectWriter, StorageOptions, open_reader, open_writer, store_clock
from dredge.xid import new_descending_xid

log = logging.getLogger("dredge")

PLAN = "plan.json"
LEASE_SECONDS = 3600.0
CLOCK_SKEW_SECONDS_MAX = 300.0
GATE_EVERY_SECONDS = 3.0
WATCH_SILENCE_SECONDS_MAX = 60.0
LOOK_SECONDS = 5.0
"""How often the driver says that it still lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePlan:
    """What such a run works on.

    Attributes:
        run_id: its own id.
        repository: what people call it.
        namespace: its URI.
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
        """URI of what is worked on."""
        return self.namespace


@dataclass(slots=True)
class SideRun(PlannedRun[SidePlan]):
    """A run beside collections. Make it with `side_run`."""

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return _lease(self.state)

    def gate(self, watched: str) -> GateConfig:
        """What each request that deletes must pass.

        Args:
            watched: key of what the driver writes after each look.
        """
        return gate_of(self.plan.lease, watched)


def gate_of(lease: LeaseGrant, watched: str) -> GateConfig:
    """What each request must pass that restores or purges.

    Args:
        lease: of the run.
        watched: key of what the driver writes after each look.
    """
    return GateConfig(
        lease=lease,
        watch=watched,
        trusted_seconds=GATE_EVERY_SECONDS,
        silence_seconds_max=WATCH_SILENCE_SECONDS_MAX,
    )


def _lease(state: ObjectWriter) -> Lease:
    return Lease(state, timedelta(seconds=LEASE_SECONDS), lambda: store_clock(state, ""))


@contextmanager
def side_run(
    repository: str,
    uri: str,
    state: ObjectWriter,
    place: str,
    what: str,
    asked: Mapping[str, Any],
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Iterator[SideRun]:
    """Begin a run beside collections, and give the lease back at its end.

    Args:
        repository: what people call it.
        uri: of what is worked on.
        state: on the folder with the lease.
        place: URI of the folder that is to hold this run's.
        what: it is, such as "restore".
        asked: what was asked for, JSON.
        holder: who takes the lease; the same one gets it again after it died. None: this run alone.
        options: None reads the environment.
        clock: this machine's clock.

    Raises:
        LeaseHeldError: another run works on the repository.
        RefusedError: the store's clock and this machine's differ too much.
    """
    before, now = clock(), store_clock(state, "")
    check_clocks((now - before).total_seconds(), CLOCK_SKEW_SECONDS_MAX)
    run_id = new_descending_xid(now)
    lease = _lease(state)
    grant = lease.acquire(holder or f"{what} {run_id}")
    try:
        plan = SidePlan(
            run_id=run_id, repository=repository, namespace=uri, created_at=now, lease=grant, asked=asked
        )
        writer = open_writer(f"{place.rstrip('/')}/{run_id}", options)
        writer.put_if_absent(PLAN, json.dumps(to_json(plan), indent=1, sort_keys=True).encode())
        log.info("%s %s of %s: folder %s", what, run_id, repository, writer.uri)
        yield SideRun(plan, RunFolder(writer, run_id), open_reader(uri, options), state, clock, options)
    finally:
        with suppress(DredgeError):
            lease.release(grant)
