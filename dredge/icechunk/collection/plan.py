"""The first step: the right to run, the store's time, the cutoff, the plan; and the doors of later steps."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dredge.errors import ConfigError, DredgeError, NotFoundError, RefusedError
from dredge.graveler.xid import new_descending_xid
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.history import History
from dredge.icechunk.maintenance import RUNS, make_lease, open_state
from dredge.icechunk.repository import read_history, spec_version
from dredge.runs import chain
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.perform import StepRecord, perform
from dredge.runs.progress import log_progress
from dredge.runs.run import PlannedRun
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import Json, PartitionFunction, TaskRunner
from dredge.storage import StorageOptions, open_reader, open_writer, store_clock

log = logging.getLogger("dredge")

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
        lease: the right to run.
        config: what the user asked for.
    """

    run_id: str
    uri: str
    spec_version: int
    run_uri: str
    created_at: datetime
    cutoff: datetime
    lease: LeaseGrant
    config: CollectConfig

    @property
    def store_uri(self) -> str:
        """URI of what is collected: the repository."""
        return self.uri

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
            "lease": self.lease.to_json(),
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
            lease=LeaseGrant.from_json(value["lease"]),
            config=CollectConfig.from_json(value["config"]),
        )


@dataclass(slots=True)
class Context(PlannedRun[CollectionPlan]):
    """A collection's run. Make it with `Context.open`."""

    @classmethod
    def open(cls, run_uri: str, options: StorageOptions | None = None, clock: Clock = utc_now) -> Context:
        """Open a run by the URI of its folder.

        Raises:
            ConfigError: there is no run.
        """
        writer = open_writer(run_uri, options)
        try:
            plan = CollectionPlan.from_json(read_json(writer, PLAN))
        except NotFoundError:
            raise ConfigError(f"{run_uri} holds no {PLAN}: it is not the folder of a run") from None
        return cls(
            plan,
            RunFolder(writer, plan.run_id),
            open_reader(plan.uri, options),
            open_state(plan.uri, options),
            clock,
            options,
        )

    @property
    def lease(self) -> Lease:
        """The repository's lease."""
        return make_lease(self.state, self.plan.config.safety.lease_seconds)

    def read_history(self) -> History:
        """Read the history that this run works on: in a dry run perhaps the one after a planned expiration.

        Raises:
            NotFoundError: no repository.
            FormatError: a file that matters is missing or cannot be trusted.
            RefusedError: main is missing, or the history cannot be expired by time.
        """
        history, after = read_history(self.reader), self.plan.config.after
        if after is None:
            return history
        return plan_expiration(
            history,
            datetime.fromisoformat(after.threshold),
            rule=after.rule,
            delete_expired_branches=after.delete_expired_branches,
            delete_expired_tags=after.delete_expired_tags,
        ).after

    def step_by_name(
        self, name: str, inputs: Sequence[str], body: Callable[[StepRecord], None]
    ) -> StepSummary:
        """Do a step of this run under its lease; raises LeaseHeldError when another run has taken over."""

        def under_lease(record: StepRecord) -> None:
            with self.lease.kept(self.plan.lease, record.attempt.is_newest):
                body(record)

        # The first step of a chain reads nothing but the plan.
        roots = {} if inputs else {chain.PLAN: chain.plan_digest(self.folder)}
        right = partial(self.lease.renew, self.plan.lease)
        return perform(self.folder, name, inputs, under_lease, self.clock, right, roots)

    def spread_json(
        self,
        runner: TaskRunner,
        step: str,
        fn: PartitionFunction,
        config: Json,
        tasks: Sequence[Json],
        unit: str,
    ) -> list[Json]:
        """Run a partition function over tasks with lines of progress; adds the doors' URIs to its config."""
        if not tasks:
            return []
        doors = {
            "uri": self.plan.uri,
            "state_uri": self.state.uri,
            "run_uri": self.folder.uri,
            "run_id": self.folder.run_id,
            "try": None if self.folder.attempt is None else self.folder.attempt.to_json(),
            "threads": self.plan.config.tuning.threads,
        }
        with log_progress(self.folder, step, unit, None) as where:
            return runner.run(step, fn, {**doors, **config, "progress": where}, tasks)


def plan_collection(
    config: CollectConfig,
    lease: LeaseGrant | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> CollectionPlan:
    """Fix what a run works on, and write it as `plan.json` into a new run folder.

    Args:
        config: what the user asks for.
        lease: the right, when it was taken before; None takes it, with the run id as holder.
        options: None reads the environment.
        clock: this machine's clock.

    Raises:
        NotFoundError: no repository.
        RefusedError: clocks differ too much.
        LeaseHeldError: another run works on the repository.
    """
    version = spec_version(open_reader(config.uri, options))
    state = open_state(config.uri, options)
    before = clock()
    now = store_clock(state, "")
    ahead = (now - before).total_seconds()
    if abs(ahead) > config.safety.clock_skew_seconds_max:
        raise RefusedError(
            f"the object store's clock differs from this machine's by {abs(ahead):.0f} s, more than"
            f" {config.safety.clock_skew_seconds_max:.0f} s. Ages of objects cannot be trusted. Nothing was"
            " deleted. Set the clocks right (NTP) and start again."
        )
    run_id = new_descending_xid(now)
    door = make_lease(state, config.safety.lease_seconds)
    grant = door.acquire(f"run {run_id}") if lease is None else door.renew(lease)
    root = config.run_root or f"{config.uri.rstrip('/')}/{RUNS}"
    plan = CollectionPlan(
        run_id=run_id,
        uri=config.uri,
        spec_version=version,
        run_uri=f"{root.rstrip('/')}/{run_id}",
        created_at=now,
        cutoff=now - timedelta(seconds=config.min_age_seconds),
        lease=grant,
        config=config,
    )
    writer = open_writer(plan.run_uri, options)
    try:
        writer.put_if_absent(PLAN, json.dumps(plan.to_json(), indent=1, sort_keys=True).encode())
    except DredgeError:
        if lease is None:  # a right that nobody will use
            with suppress(DredgeError):
                door.release(grant)
        raise
    log.info("run %s of %s planned: cutoff %s, folder %s", run_id, plan.uri, plan.cutoff, plan.run_uri)
    return plan
