"""Emulators of Azure Blob Storage and Google Cloud Storage for benchmarks, with requests counted from their
logs.

The counts include the lakeFS server's requests. Objects are in memory, so a lake is uploaded object by
object, and is lost at the end.
"""

import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.generate import Objects, move
from benchmarks.lakes import INDEX, RUNS, STATE, LocalLake
from benchmarks.requests import FORMAT
from benchmarks.s3_store import LOG
from benchmarks.shapes import Shape
from demo.stores import Store, open_store
from dredge.storage import open_deleter, open_writer

CLOUDS = ("azure", "gcs")
_AT_ONCE = 16


class CloudStore:
    """A running store.

    Args:
        store: the emulator.
        log: request log.
    """

    def __init__(self, store: Store, log: Path) -> None:
        assert store.options is not None
        assert store.pid is not None
        self.store, self.options, self.pid = store, store.options, store.pid
        self.environ = {**self.options.to_env(), LOG: str(log), FORMAT: "common"}


@contextmanager
def cloud_store(name: str) -> Iterator[CloudStore]:
    """Run the emulator of a store.

    Args:
        name: one of CLOUDS.
    """
    with TemporaryDirectory(prefix="dredge-bench-") as folder:
        log = Path(folder) / "requests.log"
        with open_store(name, STATE, log) as store:
            yield CloudStore(store, log)


class CloudLake:
    """A local lake's objects in a bucket.

    Args:
        shape: of the lake.
        store: with the bucket.
    """

    def __init__(self, shape: Shape, store: CloudStore) -> None:
        self.shape = shape
        self.local = LocalLake(shape)
        self.environ = self.server_environ = store.environ
        self.namespace = f"{store.store.uri}/{shape.name}"
        self._options, self._blockstore = store.options, store.store.blockstore
        self._kv = f"sqlite:///{self.local.folder}/kv-{self._blockstore}.db"

    @property
    def serve(self) -> list[str]:
        """Arguments for the lakeFS server."""
        folder = str(self.local.folder / f"{self._blockstore}-server")
        return ["--blockstore", self._blockstore, "--data", folder, "--kv", self._kv]

    @property
    def truth(self) -> dict[str, bool]:
        """Return the live addresses."""
        return self.local.truth

    def prepare(self) -> None:
        """Fill the bucket, or restore deleted objects."""
        self.local.make()
        file = self._kv.removeprefix("sqlite://")
        for ending in ("", "-wal", "-shm"):
            Path(f"{file}{ending}").unlink(missing_ok=True)
        shutil.copyfile(self.local.folder / "kv.db", file)
        move(self._kv, self.shape.name, self.namespace)
        begun = time.perf_counter()
        added = self._fill()
        if added > self.shape.garbage:
            print(f"{added:,} objects put in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        time.sleep(3)  # some stores have timestamps in whole seconds

    def _fill(self) -> int:
        """Upload missing objects; returns their number."""
        writer, objects = open_writer(self.namespace, self._options), Objects(self.shape, datetime.now(UTC))
        there = self._names("")
        files = {
            path.relative_to(self.local.root).as_posix()
            for path in (self.local.root / "_lakefs").rglob("*")
            if path.is_file()
        }
        wanted = {name for name in files if not name.startswith((INDEX, RUNS))} | self.truth.keys()

        def put(name: str) -> None:
            path = self.local.root / name
            writer.put(name, path.read_bytes() if name in files else objects.content(name))

        missing = sorted(wanted - there)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(put, missing))
        return len(missing)

    def forget_index(self) -> None:
        """Make the next run a cold one."""
        open_deleter(self.namespace, self._options).delete(sorted(self._names(INDEX)))

    def present(self) -> set[str]:
        """Return the addresses of existing objects."""
        return self._names("data/")

    def _names(self, prefix: str) -> set[str]:
        reader = open_writer(self.namespace, self._options)
        return {key for batch in reader.list(prefix) for key in batch["key"].to_pylist()}
