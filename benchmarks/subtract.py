"""Subtraction of tens of millions of live hashes from millions of listed objects: seconds and memory, two
processes.

    python -m benchmarks.subtract [--listed N] [--live N]

Goal: 5 million listed minus 20 million live within 8 GiB on 2 cores, with constant memory of the driver.
"""

import json
import os
import resource
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from benchmarks.measure import Meter
from dredge.gc.config import GCConfig
from dredge.gc.subtract.candidates import SubtractConfig
from dredge.gc.subtract.step import subtract_parts
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import LocalRunner, Stores, round_robin
from dredge.sets.hashes import split, unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage import open_writer

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "bench" / "subtract"
PART_ROWS = 250_000
SHARD_VALUES = 32 << 20


@click.command()
@click.option(
    "--listed", default=5_000_000, show_default=True, help="Listed objects; one in a hundred is garbage."
)
@click.option("--live", default=20_000_000, show_default=True, help="Live addresses.")
def main(listed: int, live: int) -> None:
    """Measure the subtraction."""
    shutil.rmtree(STATE, ignore_errors=True)
    (STATE / "run").mkdir(parents=True)
    folder = RunFolder(open_writer(f"file://{STATE}/run"), "benchmark")
    bits, parts = 0, []
    known: list[np.ndarray] = []
    for index in range(-(-listed // PART_ROWS)):
        rows = min(PART_ROWS, listed - index * PART_ROWS)
        table = _listing(index, rows)
        parts.append(folder.write_table("slice_listing", index, table))
        hashes = table["hash"].to_numpy()
        known.append(hashes[np.arange(rows) % 100 != 0])
    others = np.random.default_rng(7).integers(0, 2**64, live - sum(map(len, known)), np.uint64)
    everything = unite([*known, others])
    while len(everything) >> bits > SHARD_VALUES:
        bits += 1
    shards = [
        write_hashes(folder, f"list_committed/live-{number:04d}.u64", values)
        for number, values in enumerate(split(everything, bits))
    ]
    del known, others, everything
    everything_live = LiveSet((LocatedSet(folder.uri, ShardedSet.of(shards, bits)),))
    _run(folder, everything_live, parts, listed, live)


def _listing(index: int, rows: int) -> pa.Table:
    numbers = np.arange(index * PART_ROWS, index * PART_ROWS + rows)
    names = pa.array([f"data/slice{index:014d}/{number:020d}" for number in numbers.tolist()])
    return pa.table(
        {
            "address": names,
            "size": pa.array(numbers % 4096),
            "last_modified": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * rows, pa.timestamp("us", "UTC")),
            "etag": pa.array([f"{number:032x}" for number in numbers.tolist()]),
            "hash": hash64(names),
        }
    )


def _run(folder: RunFolder, everything_live: LiveSet, parts: list[PartInfo], listed: int, live: int) -> None:
    stores = Stores(
        run_uri=folder.uri,
        run_id="benchmark",
        attempt=None,
        store_uri=folder.uri,
        state_uri=folder.uri,
        progress="subtract/_progress",
    )
    config = SubtractConfig(
        settings=GCConfig(repository="benchmark"),
        live=everything_live,
        head_sizes=(),
        expired=ShardedSet(0, {}),
    )
    tasks = round_robin(parts, 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    with Meter({"own": os.getpid()}) as meter:
        results = subtract_parts.spread(LocalRunner(processes=2), "subtract", stores, config, tasks)
    seconds = time.perf_counter() - begun
    found = sum(result.candidates.total.objects for result in results)
    figures = {
        "listed": listed,
        "live": live,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(meter.cpu_seconds["own"], 1),
        "peak_mib_all_processes": round(meter.peak_of_all_mib),
        "driver_grew_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024,
        "candidates": found,
        "right": found == -(-listed // 100) if listed % PART_ROWS == 0 else None,
    }
    click.echo(json.dumps(figures))


if __name__ == "__main__":
    main()
