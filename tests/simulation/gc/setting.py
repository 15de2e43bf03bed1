"""The setting of a history of the collector's world: servers and their defects, clocks, the store's habits, margins."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from lakefs_embedded.catalog import Settings
from tests.simulation.buckets import Bucket
from tests.simulation.clock import DAY, HOUR, Clock, instant
from tests.simulation.gc.drawing import PAST_DAYS
from tests.simulation.gc.settings import DEFECTS, Drawing
from tests.simulation.history import Simulation
from tests.simulation.kv import WatchedKV
from tests.simulation.lakefs import Server, make_settings
from tests.simulation.trash.rows import DoorRows
from tests.simulation.truth import Policy

LIVED_WITH = frozenset(DEFECTS) - {
    "page_missing",
    "repeated_token",
    "prepare_commits_404",
    "cherry_pick_cache",
}
"""Defects without effect on the success of a run."""
POLICIES: tuple[Policy | None, ...] = (
    None,
    Policy(("**",), 2),
    Policy(("main",), None, ("dir/**",)),
    Policy(("one", "two"), 3, ("a",)),
)
"""Retention policies of runs, by number: their only rule."""


def prepare_bucket(bucket: Bucket, draw: Drawing) -> float:
    """Draw the store's habits; returns the maximum error of clocks in seconds."""
    bucket.etags = draw.of("etags")
    bucket.versioned = draw.of("versioned")
    bucket.page_keys = draw.of("page keys")
    bucket.clock.whole_seconds = draw.of("whole seconds")
    off: float = draw.of("off")
    side: int = draw.of("store off")
    bucket.clock.offset = 0.0 if off > HOUR else off * side
    return off


def make_servers(simulation: Simulation, draw: Drawing, kv: WatchedKV, off: float) -> list[Server]:
    defects = frozenset(name for name in DEFECTS if draw.has(name))
    settings = make_settings(
        Settings(
            prepare_flush_rows=draw.of("flush rows"),
            prepare_file_bytes_max=draw.of("file bytes"),
            range_raggedness=draw.of("raggedness"),
            branch_cache=timedelta(seconds=draw.of("branch cache")),
            slice_names_max=draw.of("slice names"),
        ),
        defects,
    )
    return [
        Server(f"server{number}", kv, simulation.doors, _clock(simulation, draw, off), settings)
        for number in range(draw.of("servers"))
    ]


def make_rows(simulation: Simulation, draw: Drawing, kv: WatchedKV) -> DoorRows:
    """The key-value store for a collector, with or without snapshots."""

    def refuse(_row: object) -> None:
        simulation.violate("foreign", "a collector deletes a row of the key-value store")

    return DoorRows(
        store=kv,
        doors=simulation.doors,
        store_clock=None,
        snapshots=draw.of("snapshots"),
        page_rows=draw.of("page rows"),
        on_delete=refuse,
    )


def draw_config(draw: Drawing, repository: str) -> dict[str, Any]:
    return {
        "repository": repository,
        "read_kv": draw.of("read_kv"),
        "slice_margin_hours": draw.of("slice margin"),
        "keep_runs_days": 7.0,
        "safety": {
            "canary_branches": draw.of("canary branches"),
            "canary_objects": 2,
            "lease_seconds": draw.of("lease seconds"),
            "staged_rows_plenty": draw.of("staged plenty"),
            "staged_questions_max": draw.of("staged questions"),
            "identical_suspects_max": draw.of("suspects"),
        },
        "tuning": {
            "delete_keys": draw.of("delete keys"),
            "candidate_rows": draw.of("candidate rows"),
            "listing_rows_max": draw.of("listing rows"),
            "part_rows": draw.of("part rows"),
            "shard_values": draw.of("shard values"),
            "shared_live_values": draw.of("shared live"),
            "counted_layers_max": draw.of("layers"),
            "threads": 2,
        },
    }


def in_peace(config: dict[str, Any]) -> dict[str, Any]:
    """The same without limits that may end a correct run."""
    return {**config, "safety": {**config["safety"], "staged_questions_max": 20_000}}


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
    """The arguments of one run, from `drawing._draw_run`."""
    found = {"unsafe_grace_seconds": 0, "max_delete_percent": None, **config}
    found |= {"mode": mode, "dry_run": dry_run, "max_delete_objects": most, "undo": undo}
    found["approval"], found["approval_hours"] = approval
    rule = POLICIES[policy]
    if rule is not None:
        rules = [{"name": f"rule{policy}", **asdict(rule)}]
        found["policy"] = {"version": 1, "name": "policy", "rules": rules}
    if window is not None:
        begin, end = (instant(now - hours * HOUR).isoformat() for hours in window)
        found |= {"window_begin": begin, "window_end": end}
    return found


def _clock(simulation: Simulation, draw: Drawing, off: float) -> Clock:
    scheduler, chance = simulation.scheduler, draw.chance
    clock = Clock(lambda: scheduler.now, offset=off * draw.of("servers off"))
    if draw.of("drift"):
        clock.drift = chance.choice((1e-5, -1e-5))
    if draw.of("jump"):
        clock.jumps.append((PAST_DAYS * DAY + chance.random() * HOUR, chance.choice((-150.0, 100.0, 250.0))))
    return clock
