"""Time of advancing a pending list of ten million rows by a run that finds none of them, in one process, on the S3
store: `python -m benchmarks.pending [ROWS]`.
"""

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from benchmarks.s3_store import s3_store
from dredge.gc.check_limits import HoldFiles
from dredge.gc.check_limits.holds import Verdicts
from dredge.gc.pending.advance import (
    AdvanceConfig,
    ShardTodo,
    Sources,
    advance_shards,
    choose_bits,
)
from dredge.gc.pending.known import Gone
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.pending.rows import PENDING, WAITING, PartFacts, Turn
from dredge.runs.pending.store import write_part
from dredge.sets.hashes import NONE, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from dredge.storage import ObjectWriter, open_writer

ROWS, LIVE = 10_000_000, 500_000
NOW = datetime.now(UTC)


def _write_list(state: ObjectWriter, bits: int, rows: int) -> list[ShardTodo]:
    todo = []
    for shard in range(2**bits):
        names = pa.array([f"data/{shard:04x}/{number:020x}" for number in range(rows >> bits)])
        columns: dict[str, Any] = {
            "address": names,
            "hash": pa.array(hash64(names)),
            "size": pa.array(np.full(len(names), 1 << 20)),
            "status": pa.array([WAITING] * len(names)),
            "run_id": pa.array(["run-0"] * len(names)),
        }
        for name, days in (("last_modified", 9), ("since", 1)):
            columns[name] = pa.array([NOW - timedelta(days=days)] * len(names), PENDING.field(name).type)
        arrays = [columns.get(item.name, pa.nulls(len(names), item.type)) for item in PENDING]
        table = pa.Table.from_arrays(arrays, schema=PENDING)
        part = write_part(state, "run-0", shard, table)
        todo.append(ShardTodo(shard=shard, found=Sources(), before=[part], facts=PartFacts.of(table)))
    return todo


def _write_live(folder: RunFolder) -> LiveSet:
    hashes = np.unique(np.random.default_rng(1).integers(0, 2**64, LIVE, dtype=np.uint64))
    part = write_hashes(folder, "live-0000.u64", hashes)
    return LiveSet((LocatedSet(folder.uri, ShardedSet(0, {0: part})),))


def main() -> None:
    """Print the seconds of three runs, and the size of the list."""
    rows = int(sys.argv[1]) if sys.argv[1:] else ROWS
    with s3_store() as store:
        os.environ.update(store.environ)
        store.bucket("lake")
        state = open_writer("s3://lake/dredge")
        folder = RunFolder(open_writer("s3://lake/run-1"), "run-1")
        todo = _write_list(state, choose_bits(rows, 0), rows)
        sizes, served = Verdicts.make(NONE, {}, NONE).write(folder)
        cleared = write_hashes(folder, "cleared.u64", NONE)
        config = AdvanceConfig(
            turn=Turn(
                run_id="run-1",
                marked_at=NOW,
                now=NOW,
                cutoff=NOW - timedelta(days=2),
                min_age=timedelta(hours=25),
                grace=timedelta(days=3),
                waits=True,
                lists_all=False,
                state_of="run-0",
            ),
            live=_write_live(folder),
            holds=HoldFiles(size_verdicts=sizes, served=served, cleared=cleared),
            gone=Gone(),
            writes=True,
        )
        run = cast(
            Any,
            SimpleNamespace(
                folder=folder, open_state=lambda: state, progress=SimpleNamespace(add=lambda _: None)
            ),
        )
        for _ in range(3):
            wall, cpu = time.perf_counter(), time.process_time()
            result = advance_shards.body(run, config, todo)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            size = sum(part.size_bytes for part in result.parts.values())
            print(
                f"{rows:,} rows, {len(result.parts)} parts, {size >> 20} MiB: {wall:.1f} s,"
                f" {cpu:.1f} s of processor time"
            )


if __name__ == "__main__":
    main()
