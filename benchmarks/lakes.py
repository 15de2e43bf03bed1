"""Generated lakes in a local folder or in an S3 bucket: create, restore, list, and the store's clock.

A lake is generated once, in a local folder. The S3 lake has the same files in the bucket of a separate store
(`s3_store`), and a copy of the key-value store with the bucket's name.
"""

import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pyarrow.parquet as pq

from benchmarks.generate import Objects, generate, move, save_truth
from benchmarks.s3_store import S3Store, put
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
        """Environment variables of the store."""

    @property
    def server_environ(self) -> dict[str, str]:
        """The same for the lakeFS server."""

    @property
    def namespace(self) -> str:
        """URL of the storage namespace."""

    def prepare(self) -> None:
        """Restore deleted objects."""

    def forget_index(self) -> None:
        """Make the next run a cold one."""

    def present(self) -> set[str]:
        """Addresses of the existing objects."""

    @property
    def truth(self) -> dict[str, bool]:
        """Live addresses."""


class LocalLake:
    """A lake in a local folder; generated at first use."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.folder = STATE / shape.name
        self.root = self.folder / "objects" / "repo"
        self.environ: dict[str, str] = {}
        self.server_environ = self.environ

    @property
    def namespace(self) -> str:
        """URL of the storage namespace."""
        return f"file://{self.root}"

    @property
    def serve(self) -> list[str]:
        """Arguments for the lakeFS server."""
        return ["--data", str(self.folder), "--kv", f"sqlite:///{self.folder}/kv.db"]

    def prepare(self) -> None:
        """Restore deleted objects, and remove the runs but for their index."""
        _forget_runs(self.root)
        self.restore()
        time.sleep(2)

    def make(self) -> None:
        """Generate the lake if it does not exist."""
        if not (self.folder / "truth.parquet").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            (self.folder / "objects").mkdir(parents=True)
            begun = time.perf_counter()
            place = f"local://{self.root}"
            truth = generate(self.shape, place, f"sqlite:///{self.folder}/kv.db", self.shape.name)
            save_truth(truth, self.folder / "truth.parquet")
            print(f"{self.shape.name} generated in {time.perf_counter() - begun:.0f} s", file=sys.stderr)

    def restore(self) -> None:
        """Write missing objects."""
        self.make()
        objects = Objects(self.shape, datetime.now(UTC))
        for address, live in self.truth.items():
            path = self.root / address
            if not live and not path.exists():
                path.write_bytes(objects.content(address))

    def forget_index(self) -> None:
        """Make the next run a cold one."""
        shutil.rmtree(self.root / INDEX, ignore_errors=True)

    def present(self) -> set[str]:
        """Return the addresses of the existing objects."""
        return _addresses(self.root)

    @property
    def truth(self) -> dict[str, bool]:
        """Return the live addresses."""
        table = pq.read_table(self.folder / "truth.parquet", columns=["address", "live"])
        return dict(zip(table["address"].to_pylist(), table["live"].to_pylist(), strict=True))


class S3Lake:
    """A local lake's files in a bucket.

    Args:
        shape: of the lake.
        store: with the bucket.
    """

    def __init__(self, shape: Shape, store: S3Store) -> None:
        self.shape = shape
        self.local = LocalLake(shape)
        self.bucket, self.prefix = f"bench-{shape.name}", "repo"
        self.root = store.bucket(self.bucket) / self.prefix
        self.environ, self.server_environ = store.environ, store.server_environ
        self.namespace = f"s3://{self.bucket}/{self.prefix}"
        self._kv = f"sqlite:///{self.local.folder}/kv-s3.db"
        for written in (INDEX, RUNS):
            shutil.rmtree(self.root / written, ignore_errors=True)

    @property
    def serve(self) -> list[str]:
        """Arguments for the lakeFS server."""
        return ["--blockstore", "s3", "--data", str(self.local.folder / "s3-server"), "--kv", self._kv]

    @property
    def truth(self) -> dict[str, bool]:
        """Return the live addresses."""
        return self.local.truth

    def prepare(self) -> None:
        """Fill the bucket, or restore deleted objects and remove the runs but for their index."""
        _forget_runs(self.root)
        self.local.make()
        for ending in ("", "-wal", "-shm"):
            Path(f"{self.local.folder}/kv-s3.db{ending}").unlink(missing_ok=True)
        shutil.copyfile(self.local.folder / "kv.db", self.local.folder / "kv-s3.db")
        move(self._kv, self.shape.name, self.namespace)
        begun = time.perf_counter()
        added = self._fill()
        if added > self.shape.garbage:
            print(f"{added:,} objects put in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        time.sleep(3)  # the store's timestamps are whole seconds

    def _fill(self) -> int:
        """Upload missing objects, and remove those of other lakes; returns the number of uploads."""
        source, added = self.local.root / "_lakefs", 0
        for path in (self.root / "_lakefs").glob("*"):
            if path.is_file() and not (source / path.name).exists():
                path.unlink()
        for path in source.rglob("*"):
            name = path.relative_to(self.local.root)
            if (
                path.is_file()
                and not name.as_posix().startswith((INDEX, RUNS))
                and not (self.root / name).exists()
            ):
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                put(self.root / name, path.read_bytes())
                added += 1
        present = self.present()
        for address in present - self.truth.keys():  # objects of a benchmark that changes the lake
            (self.root / address).unlink()
        for slice_ in (self.root / "data").glob("*"):  # the store lists empty folders too
            if not any(slice_.iterdir()):
                slice_.rmdir()
        missing = sorted(self.truth.keys() - present)
        objects = Objects(self.shape, datetime.now(UTC))
        for folder in {address.rpartition("/")[0] for address in missing}:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for address in missing:
            put(self.root / address, objects.content(address))
        return added + len(missing)

    def forget_index(self) -> None:
        """Make the next run a cold one."""
        shutil.rmtree(self.root / INDEX, ignore_errors=True)

    def present(self) -> set[str]:
        """Return the addresses of the existing objects."""
        return _addresses(self.root)


def _forget_runs(root: Path) -> None:
    """Remove the state of earlier runs, such as owner and id of the last mark."""
    for path in (root / INDEX).glob("*"):
        if path.name != "index":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _addresses(root: Path) -> set[str]:
    """Return the objects in a namespace's data folder."""
    slices = os.scandir(root / "data") if (root / "data").exists() else ()
    return {f"data/{slice_.name}/{item.name}" for slice_ in slices for item in os.scandir(slice_)}
