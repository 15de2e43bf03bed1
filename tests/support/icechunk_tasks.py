"""One task of a collection on a repository in memory, without the run around it."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from dredge.hashing import hash64
from dredge.icechunk.collection.index import write_manifest_rows
from dredge.icechunk.collection.run import RunState
from dredge.icechunk.format.manifests import NamedChunks
from dredge.icechunk.ids import encode_id, hashes_of
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import Stores, WorkerRun
from dredge.runs.tries import StepTry
from dredge.sets.hashes import Counted, write_counted, write_hashes
from dredge.sets.live import CountedSet, LocatedSet, ShardedSet
from dredge.storage import open_writer
from tests.support.icechunk_manifests import manifest_file
from tests.support.memory_store import memory_store

CUTOFF = datetime(2026, 5, 1, 12, 0, 10, 500_000, tzinfo=UTC)
OLD = CUTOFF.replace(microsecond=499_999)
"""The last time before the cutoff."""


def raw(number: int, tail: int = 0) -> bytes:
    """The bytes of an id with the given first 64 bits."""
    return number.to_bytes(8, "big") + tail.to_bytes(4, "big")


def named(number: int, tail: int = 0) -> str:
    """The name of an id with the given first 64 bits."""
    return encode_id(raw(number, tail))


class Task:
    """A repository, its state and a run's folder, as in a task of a step."""

    def __init__(self, step: str) -> None:
        place = f"task-{uuid.uuid4().hex}"
        self.store = memory_store(place)
        self.uri, self.run_uri = f"memory://{place}/repo", f"memory://{place}/runs/r"
        self.state = open_writer(f"memory://{place}/state")
        self.attempt = StepTry.claim(open_writer(self.run_uri), step)
        self.folder = RunFolder(open_writer(self.run_uri), "r", self.attempt)
        stores = Stores(
            run_uri=self.run_uri,
            run_id="r",
            attempt=self.attempt.named,
            store_uri=self.uri,
            state_uri=self.state.uri,
            progress=f"{step}/_progress/x",
        )
        self.run = WorkerRun.open(stores, "00000")

    def put(self, key: str, data: bytes = b"x", time: datetime = OLD) -> str:
        """Put an object into the repository; returns its key."""
        self.store.write(f"repo/{key}", data, time)
        return key

    def keys(self) -> set[str]:
        return {key.removeprefix("repo/") for key in self.store.objects if key.startswith("repo/")}

    def manifest(self, number: int, ids: Sequence[bytes], time: datetime = OLD) -> str:
        """Put a manifest with some chunks; returns its id."""
        rows = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12)
        key, data = manifest_file(rows, raw(number))
        return self.put(key, data, time).removeprefix("manifests/")

    def indexed(self, name: str, manifests: Mapping[str, Sequence[bytes]]) -> PartInfo:
        rows = [
            (
                manifest,
                NamedChunks(np.unique(hashes_of(np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12)))),
            )
            for manifest, ids in manifests.items()
        ]
        return write_manifest_rows(self.state, name, rows)

    def ids(self, name: str, numbers: Iterable[int]) -> PartInfo:
        """Write a set of ids into the run's folder."""
        return write_hashes(self.folder, name, np.array(sorted(numbers), np.uint64))

    def pin(self, *keys: str) -> LocatedSet:
        hashes = np.unique(hash64(pa.array(keys, pa.string())))
        part = write_hashes(self.folder, f"pins/{uuid.uuid4().hex}.u64", hashes)
        return LocatedSet(self.run_uri, ShardedSet(0, {0: part}))

    def counted(self, *numbers: int, bits: int = 0) -> CountedSet:
        """Count some chunks once each."""
        whole = Counted.of([np.array(sorted(numbers), np.uint64)])
        folder = RunFolder(self.state, "r")
        parts = [
            write_counted(folder, f"counted/{uuid.uuid4().hex}-{shard:04d}.counts", counted)
            for shard, counted in enumerate(whole.split(bits))
        ]
        return CountedSet.of(parts, bits)

    def addresses(self, parts: Iterable[PartInfo]) -> list[str]:
        return [key for table in self.folder.read_parts(parts) for key in table["address"].to_pylist()]


STATE = RunState(
    uri="memory://here/repo",
    spec_version=2,
    run_id="r2",
    run_uri="memory://here/repo/_dredge/runs/r2",
    fencing=7,
    previous="r1",
    mode="optimized",
    started_at=datetime(2026, 5, 3, tzinfo=UTC),
    cutoff=datetime(2026, 5, 2, tzinfo=UTC),
    clean_run_id="r0",
    clean_at=datetime(2026, 5, 1, tzinfo=UTC),
    optimized_runs=2,
    chunk_objects=30,
    snapshots=PartInfo("mark/snapshots.parquet", 1, 2, "3"),
    virtual=PartInfo("mark/virtual.ids", 1, 8, "5"),
    counted=CountedSet.of([PartInfo("counted/x-0000.counts", 1, 12, "4")], 0),
    seen=("index/parts/x-snapshots-00000.parquet",),
)
