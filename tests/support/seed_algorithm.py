"""The optimized run of the design of uncommitted collection, word for word, as a model. It is not safe.

Kept to show the reason for the collector's different algorithm: see `tests/unit/gc/test_seed_algorithm.py`.

Source: design "Uncommitted garbage collector", Flow 1 and Flow 2.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from dredge.gc.slice_listing import slice_time
from dredge.lakefs.files.addresses import address_readings
from dredge.runs.parts import read_parquet
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.store import RangeReader
from tests.support.gc import World

TOKEN_EXPIRY = timedelta(hours=24)


@dataclass(frozen=True)
class Saved:
    uncommitted: set[str]  # addresses
    started: datetime  # of the run
    last_slice: str  # name of the newest slice that was read; names are sorted newest first


def clean_run(world: World) -> tuple[set[str], Saved]:
    """Flow 1; returns its deletions, and its saved information."""
    store, last_slice = _store(world, None)
    uncommitted = _uncommitted(world)
    garbage = store - _committed(world, None) - uncommitted
    return garbage, Saved(uncommitted, world.lake.clock(), last_slice)


def optimized_run(world: World, before: Saved) -> tuple[set[str], Saved]:
    """Flow 2; returns its deletions, and its saved information."""
    uncommitted = _uncommitted(world)
    committed = _committed(world, before.started)  # "all new commits down to the last GC run timestamp"
    old_entries = before.uncommitted - committed - uncommitted
    store, last_slice = _store(world, before.last_slice)
    new_entries = store - committed - uncommitted
    saved = Saved(uncommitted, world.lake.clock(), last_slice or before.last_slice)
    return old_entries | new_entries, saved


def _store(world: World, stop_at: str | None) -> tuple[set[str], str]:
    limit = world.lake.clock() - TOKEN_EXPIRY
    keys, newest = set[str](), ""
    for folder in world.lake.objects.list_level("data/").folders:
        opened = slice_time(folder)
        if opened is not None and opened > limit:
            continue
        if stop_at is not None and folder >= stop_at:
            break
        newest = newest or folder
        keys |= set(world.lake.keys(folder))
    return keys, newest


def _uncommitted(world: World) -> set[str]:
    found, token = set[str](), None
    while True:
        page = world.client.prepare_uncommitted(world.lake.repository, token)
        if page.location:
            folder = page.location.removeprefix(world.lake.namespace + "/")
            for key in world.lake.keys(folder):
                rows: pa.Table = read_parquet(world.lake.objects.get(key))
                found |= set(rows["physical_address"].to_pylist())
        token = page.token
        if token is None:
            return found


def _committed(world: World, since: datetime | None) -> set[str]:
    reader, found = RangeReader(world.lake.objects), set[str]()
    for branch in world.client.branches(world.lake.repository):
        for commit in world.client.log(world.lake.repository, branch.id):
            if since is None or commit.created_at > since:
                for key, value in reader.list_entries(commit.metarange_id):
                    entry = Entry.decode(value.data, repr(key))
                    found |= set(address_readings(entry.address, entry.address_type, world.lake.namespace))
    return found
