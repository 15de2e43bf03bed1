"""Generated lakes on a local folder or in an S3 bucket: made, put back, looked at, and the store's own time.

A lake is generated once, on a local folder. The S3 one is the same files in the bucket of a store of its own
(`s3_store`), and a copy of the key-value store that names the bucket.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pyarrow.parquet as pq

from benchmarks.generate import Objects, generate, move, save_truth
from benchmarks.s3_store import S3Store, fill
from benchmarks.shapes import Shape

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "bench"
INDEX, RUNS = "_lakefs/retention/gc/dredge", "_lakefs/retention/gc/unified"
STORES = ("local", "s3")


class Lake(Protocol):
    """A generated lake in some store."""

    shape: Shape

    @property
    def serve(self) -> list[str]:
        """Arguments for the lakeFS server."""

    @property
    def environ(self) -> dict[str, str]:
        """Variables that reach the store."""

    def prepare(self) -> None:
        """Put back what earlier runs deleted."""

    def forget_index(self) -> None:
        """Make the next run a cold one."""

    def present(self) -> set[str]:
        """Addresses of the objects that are there now."""

    @property
    def truth(self) -> dict[str, bool]:
        """Which addresses are live."""


class LocalLake:
    """A lake on a local folder; generated when it is not there yet."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.folder = STATE / shape.name
        self.root = self.folder / "objects" / "repo"
        self.environ: dict[str, str] = {}

    @property
    def serve(self) -> list[str]:
        """Arguments for the lakeFS server."""
        return ["--data", str(self.folder), "--kv", f"sqlite:///{self.folder}/kv.db"]

    def prepare(self) -> None:
        """Put back what earlier runs deleted."""
        self.restore()
        time.sleep(2)

    def restore(self) -> None:
        """Generate the lake, or write what is missing."""
        if not (self.folder / "truth.parquet").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            (self.folder / "objects").mkdir(parents=True)
            begun = time.perf_counter()
            place = f"local://{self.root}"
            truth = generate(self.shape, place, f"sqlite:///{self.folder}/kv.db", self.shape.name)
            save_truth(truth, self.folder / "truth.parquet")
            print(f"{self.shape.name} generated in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        objects = Objects(self.shape, datetime.now(UTC))
        for address, live in self.truth.items():
            path = self.root / address
            if not live and not path.exists():
                path.write_bytes(objects.content(address))

    def forget_index(self) -> None:
        """Make the next run a cold one."""
        shutil.rmtree(self.root / INDEX, ignore_errors=True)

    def present(self) -> set[str]:
        """Addresses of the objects that are there now."""
        return _addresses(self.root)

    @property
    def truth(self) -> dict[str, bool]:
        """Which addresses are live."""
        table = pq.read_table(self.folder / "truth.parquet", columns=["address", "live"])
        return dict(zip(table["address"].to_pylist(), table["live"].to_pylist(), strict=True))


class S3Lake:
    """A local lake's files in a bucket.

    Args:
        shape: of the lake.
        store: where the bucket is.
    """

    def __init__(self, shape: Shape, store: S3Store) -> None:
        self.shape = shape
        self.local = LocalLake(shape)
        self.bucket, self.prefix = f"bench-{shape.name}", "repo"
        self.root = store.bucket(self.bucket) / self.prefix
        self.environ = store.environ
        self._kv = f"sqlite:///{self.local.folder}/kv-s3.db"
        for written in (INDEX, RUNS):
            shutil.rmtree(self.root / written, ignore_errors=True)

    @property
    def serve(self) -> list[str]:
        """Arguments for the lakeFS server."""
        return ["--blockstore", "s3", "--data", str(self.local.folder / "s3-server"), "--kv", self._kv]

    @property
    def truth(self) -> dict[str, bool]:
        """Which addresses are live."""
        return self.local.truth

    def prepare(self) -> None:
        """Fill the bucket, or put back what earlier runs deleted."""
        self.local.restore()
        for ending in ("", "-wal", "-shm"):
            Path(f"{self.local.folder}/kv-s3.db{ending}").unlink(missing_ok=True)
        shutil.copyfile(self.local.folder / "kv.db", self.local.folder / "kv-s3.db")
        move(self._kv, self.shape.name, f"s3://{self.bucket}/{self.prefix}")
        begun = time.perf_counter()
        added = fill(self.local.root, self.root, (INDEX, RUNS))
        if added > self.shape.garbage:
            print(
                f"{added:,} files put into {self.bucket} in {time.perf_counter() - begun:.0f} s",
                file=sys.stderr,
            )
        time.sleep(3)  # the store counts in whole seconds

    def forget_index(self) -> None:
        """Make the next run a cold one."""
        shutil.rmtree(self.root / INDEX, ignore_errors=True)

    def present(self) -> set[str]:
        """Addresses of the objects that are there now."""
        return _addresses(self.root)


def _addresses(root: Path) -> set[str]:
    """The objects in a namespace's data folder."""
    return {
        f"data/{slice_.name}/{item.name}"
        for slice_ in os.scandir(root / "data")
        for item in os.scandir(slice_)
    }
