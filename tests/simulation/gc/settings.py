"""The parts of the setting available to a focus, and their values; one listed twice is drawn twice as often."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.focus import Focus

NO, YES = False, True
SETTINGS: Mapping[str, Sequence[Any]] = {
    # the history
    "pace": (0.02, 0.2, 2.0),
    "mode": ("clean", "clean", "optimized"),
    "first": (YES, NO, NO, NO, NO),
    "dry": (*(NO,) * 9, YES),
    "by": ("dag", "dag", "dag", "person"),
    "rules": (None, 1, 30),
    "rest": ("clean", "optimized"),
    # the store
    "etags": ("md5", "md5", "opaque"),
    "versioned": (YES, NO, NO),
    "page keys": (3, 20, 1000),
    "whole seconds": (YES, YES, NO),
    # clocks
    "off": (0.0, 0.0, 0.0, 0.0, 60.0, 60.0, 60.0, *(140.0,) * 6, 400.0, 5400.0),
    "store off": (0, 1, -1),
    "servers off": (0, 1, -1),
    "workers off": (0.0, 0.0, -140.0, 140.0, 250.0),
    "drift": (YES, *(NO,) * 9),
    "jump": (YES, *(NO,) * 9),
    # servers
    "servers": (1, 2, 3),
    "flush rows": (1, 3, 100_000),
    "file bytes": (1, 400, 20 << 20),
    "raggedness": (1, 2, 50_000),
    "branch cache": (0.0, 0.5),
    "slice names": (2, 50_000),
    # the key-value store
    "read_kv": (YES, NO, NO, NO),
    "snapshots": (YES, NO),
    "page rows": (2, 10, 50),
    # workers
    "at once": (1, 2, 3),
    "twice": (0.0, 0.0, 0.3),
    "haste": (1.0, 1.0, 0.05),
    # what runs are asked for
    "slice margin": (51.0, 193.0),
    "canary branches": (0, 3),
    "lease seconds": (600.0, 3600.0),
    "staged plenty": (1, 100),
    "staged questions": (20_000, 20_000, 20_000, 2),
    "suspects": (5_000_000, 5_000_000, 5_000_000, 0),
    "delete keys": (1, 2, 8000),
    "candidate rows": (2, 5, 100_000),
    "listing rows": (3, 200_000),
    "part rows": (4, 250_000),
    "shard values": (4, 32 << 20),
    "shared live": (1, 50_000_000, 50_000_000),
    "layers": (1, 24),
}
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
"""Known defects of real servers, with their frequency. Those of today's servers are frequent."""
ALL_SETTINGS: Mapping[str, Sequence[Any]] = {**SETTINGS, **dict.fromkeys(DEFECTS, (YES, NO))}
"""With the defects of servers, each by its name."""
CHEAP: Mapping[str, Sequence[Any]] = {
    "pace": (0.2, 2.0),
    "first": (NO,),
    "dry": (NO,),
    "page keys": (1000,),
    "servers": (1,),
    "flush rows": (100_000,),
    "file bytes": (20 << 20,),
    "raggedness": (50_000,),
    "twice": (0.0,),
    "delete keys": (8000,),
    "candidate rows": (100_000,),
    "listing rows": (200_000,),
    "part rows": (250_000,),
    "shard values": (32 << 20,),
    "off": (0.0,),
    "drift": (NO,),
    "jump": (NO,),
    "workers off": (0.0,),
    "page_missing": (NO,),
    "repeated_token": (NO,),
    "prepare_commits_404": (NO,),
}
"""The fastest values without obstacles, for bugs that do not depend on them."""


@dataclass(frozen=True)
class Drawing:
    chance: random.Random  # that draws
    focus: Focus  # of the histories

    def of(self, name: str) -> Any:
        return self.focus.draw(self.chance, SETTINGS, name)

    def has(self, defect: str) -> bool:
        is_there = self.chance.random() < DEFECTS[defect]
        wanted = self.focus.settings.get(defect, (YES, NO))
        return is_there if is_there in wanted else not is_there
