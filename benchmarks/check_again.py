"""Time of comparing 30 deletions of 100,000 objects with 500,000 live ones: `python -m
benchmarks.check_again`.
"""

import tempfile
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from dredge.gc.check_again.find import find_hits
from dredge.runs.folder import RunFolder
from dredge.sets.hashes import Hashes, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage import ObjectWriter, open_writer
from dredge.undo import deletions
from dredge.undo.deletions import read_checked, write_checked

LIVE, RUNS, DELETED = 500_000, 30, 100_000


def _write_deletions(state: ObjectWriter, random: np.random.Generator) -> None:
    for number in range(RUNS):
        run_id = f"run-{number:02d}"
        part = deletions.write_hashes(state, run_id, _some(random, DELETED))
        now = datetime.now(UTC)
        deletions.write_deletion(
            state, deletions.Deletion(run_id=run_id, run_uri="", at=now, way="versions", hashes=part)
        )


def _some(random: np.random.Generator, count: int) -> Hashes:
    return np.unique(random.integers(0, 2**64, count, dtype=np.uint64))


def main() -> None:
    """Print the best of five."""
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as root:
        state = open_writer(f"file://{root}/state")
        folder = RunFolder(open_writer(f"file://{root}/run"), "run")
        part = write_hashes(folder, "live-0000.u64", _some(random, LIVE))
        _write_deletions(state, random)
        mark = SimpleNamespace(live=LiveSet((LocatedSet(folder.uri, ShardedSet(0, {0: part})),)), exact=True)
        run = cast(Any, SimpleNamespace(state=state))
        record = cast(Any, SimpleNamespace(input=lambda _: mark))
        seconds = []
        for _ in range(5):
            began = time.process_time()
            before = read_checked(state)
            found = find_hits(run, cast(Any, None), record, before, deletions.read_deletions(state))
            write_checked(state, before, "check", "check", datetime.now(UTC), found.sweeps, found.live)
            seconds.append(time.process_time() - began)
        print(f"{found.compared:,} deleted, {LIVE:,} live: {min(seconds):.3f} s of processor time")


if __name__ == "__main__":
    main()
