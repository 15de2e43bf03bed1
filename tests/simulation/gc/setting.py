"""The setting of a history of the collector's world: servers and their defects, clocks, the store's habits, margins."""

from __future__ import annotations

import random
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from dredge.graveler.catalog import Settings
from tests.simulation.buckets import Bucket
from tests.simulation.clock import DAY, HOUR, Clock, instant
from tests.simulation.gc.drawing import PAST_DAYS
from tests.simulation.history import Simulation
from tests.simulation.kv import WatchedKV
from tests.simulation.lakefs import Server, make_settings
from tests.simulation.trash.rows import DoorRows
from tests.simulation.truth import Policy

DEFECTS = {
    "rows_lost_on_branch_delete": 0.5,
    "active_walk_early_stop": 0.4,
    "empty_last_page": 0.4,
    "cherry_pick_cache": 0.2,
    "double_body_prepare_commits": 0.15,
    "prepare_commits_500_async": 0.3,
    "page_missing": 0.04,
    "repeated_token": 0.04,
    "prepare_commits_404": 0.04,
}
"""Known defects of real servers: how often each is there. Those that today's servers have are there often."""
LIVED_WITH = frozenset(DEFECTS) - {
    "page_missing",
    "repeated_token",
    "prepare_commits_404",
    "cherry_pick_cache",
}
"""Defects beside which a run comes to its end all the same."""
POLICIES: tuple[Policy | None, ...] = (
    None,
    Policy(("**",), 2),
    Policy(("main",), None, ("dir/**",)),
    Policy(("one", "two"), 3, ("a",)),
)
"""Retention policies that runs choose from, by number: their only rule."""


def prepare_bucket(bucket: Bucket, chance: random.Random) -> float:
    """Draw the store's habits; gives by how many seconds clocks may be off."""
    bucket.etags = chance.choice(("md5", "md5", "opaque"))
    bucket.versioned = chance.random() < 0.3
    bucket.page_keys = chance.choice((3, 20, 1000))
    bucket.clock.whole_seconds = chance.random() < 0.7
    off = chance.choices((0.0, 60.0, 140.0, 400.0, 5400.0), (4, 3, 6, 1, 1))[0]
    bucket.clock.offset = 0.0 if off > HOUR else chance.choice((0.0, off, -off))
    return off


def make_servers(simulation: Simulation, chance: random.Random, kv: WatchedKV, off: float) -> list[Server]:
    """Draw the servers of the installation."""
    defects = frozenset(name for name, often in DEFECTS.items() if chance.random() < often)
    settings = make_settings(
        Settings(
            prepare_flush_rows=chance.choice((1, 3, 100_000)),
            prepare_file_bytes_max=chance.choice((1, 400, 20 << 20)),
            range_raggedness=chance.choice((1, 2, 50_000)),
            branch_cache=timedelta(seconds=chance.choice((0.0, 0.5))),
            slice_names_max=chance.choice((2, 50_000)),
        ),
        defects,
    )
    return [
        Server(f"server{number}", kv, simulation.doors, _clock(simulation, chance, off), settings)
        for number in range(chance.choice((1, 2, 3)))
    ]


def make_rows(simulation: Simulation, chance: random.Random, kv: WatchedKV) -> DoorRows:
    """The key-value store as a collector may read it, with or without snapshots."""

    def refuse(_row: object) -> None:
        simulation.violate("foreign", "a collector deletes a row of the key-value store")

    return DoorRows(
        store=kv,
        doors=simulation.doors,
        store_clock=None,
        snapshots=chance.random() < 0.5,
        page_rows=chance.choice((2, 10, 50)),
        on_delete=refuse,
    )


def draw_config(chance: random.Random, repository: str) -> dict[str, Any]:
    """Draw what all runs are asked for."""
    return {
        "repository": repository,
        "read_kv": chance.random() < 0.25,
        "slice_margin_hours": chance.choice((51.0, 193.0)),
        "keep_runs_days": 7.0,
        "safety": {
            "canary_branches": chance.choice((0, 3)),
            "canary_objects": 2,
            "lease_seconds": chance.choice((600.0, 3600.0)),
            "staged_rows_plenty": chance.choice((1, 100)),
        },
        "tuning": {
            "delete_keys": chance.choice((1, 2, 8000)),
            "candidate_rows": chance.choice((2, 5, 100_000)),
            "listing_rows_max": chance.choice((3, 200_000)),
            "part_rows": chance.choice((4, 250_000)),
            "shard_values": chance.choice((4, 32 << 20)),
            "counted_layers_max": chance.choice((1, 24)),
            "threads": 2,
        },
    }


def config_of_run(
    config: dict[str, Any],
    now: float,
    mode: str,
    dry_run: bool,
    most: int | None,
    policy: int,
    window: tuple[float, float] | None,
    approval: tuple[str, float] = ("over_limits", 12.0),
    undo: str = "off",
) -> dict[str, Any]:
    """What one run is asked for; arguments as `drawing._draw_run` gives them."""
    found = {**config, "mode": mode, "dry_run": dry_run, "max_delete_objects": most, "undo": undo}
    found["approval"], found["approval_hours"] = approval
    rule = POLICIES[policy]
    if rule is not None:
        rules = [{"name": f"rule{policy}", **asdict(rule)}]
        found["policy"] = {"version": 1, "name": "policy", "rules": rules}
    if window is not None:
        begin, end = (instant(now - hours * HOUR).isoformat() for hours in window)
        found |= {"window_begin": begin, "window_end": end}
    return found


def _clock(simulation: Simulation, chance: random.Random, off: float) -> Clock:
    """A clock that is off by at most so much, may drift, and may jump."""
    scheduler = simulation.scheduler
    clock = Clock(lambda: scheduler.now, offset=chance.choice((0.0, off, -off)))
    if chance.random() < 0.1:
        clock.drift = chance.choice((1e-5, -1e-5))
    if chance.random() < 0.1:
        clock.jumps.append((PAST_DAYS * DAY + chance.random() * HOUR, chance.choice((-150.0, 100.0, 250.0))))
    return clock
