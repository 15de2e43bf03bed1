"""Generated lakes on a local folder or in an S3 bucket: made, put back, looked at, and the store's own time.

A lake is generated once, on a local folder. The S3 one is the same files in the bucket of a store of its own
(`s3_store`), and a copy of the key-value store that names the bucket.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow.parquet as pq

from benchmarks.generate import Objects, generate, move, save_truth
from benchmarks.shapes import Shape

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "bench"
INDEX, RUNS = "_lakefs/retention/gc/dredge", "_lakefs/retention/gc/unified"
S3_KEYS = {"AWS_ACCESS_KEY_ID": "AKIABENCHMARK", "AWS_SECRET_ACCESS_KEY": "benchmark-secret"}
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

    def bare(self) -> dict[str, Any]:
        """Measure the store alone: list everything, delete as many as there is garbage."""

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
        files = (part for part in (self.root / "data").rglob("*") if part.is_file())
        return {f"data/{part.parent.name}/{part.name}" for part in files}

    @property
    def truth(self) -> dict[str, bool]:
        """Which addresses are live."""
        table = pq.read_table(self.folder / "truth.parquet", columns=["address", "live"])
        return dict(zip(table["address"].to_pylist(), table["live"].to_pylist(), strict=True))

    def bare(self) -> dict[str, Any]:
        """Walk the folder with a look at each file, and unlink as many files as there is garbage."""
        begun = time.perf_counter()
        listed = sum(
            1 for slice_ in os.scandir(self.root / "data") for item in os.scandir(slice_) if item.stat()
        )
        list_seconds = time.perf_counter() - begun
        folder = self.folder / "bare"
        folder.mkdir(exist_ok=True)
        doomed = [folder / f"{number:07d}" for number in range(self.shape.garbage)]
        for path in doomed:
            path.write_bytes(b"x")
        begun = time.perf_counter()
        for path in doomed:
            path.unlink()
        return _bare(listed, list_seconds, len(doomed), time.perf_counter() - begun)


class S3Lake:
    """A local lake's files in a bucket.

    Args:
        shape: of the lake.
        store: where the bucket is.
    """

    def __init__(self, shape: Shape, store: S3Store) -> None:
        self.shape = shape
        self.local = LocalLake(shape)
        self.store = store
        self.bucket, self.prefix = f"bench-{shape.name}", "repo"
        self.environ = store.environ
        self._kv = f"sqlite:///{self.local.folder}/kv-s3.db"

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
        place = {"bucket": self.bucket, "prefix": self.prefix}
        begun = time.perf_counter()
        added = self.store.ask("fill", {**place, "folder": str(self.local.root), "without": [INDEX, RUNS]})
        if added > self.shape.garbage:
            print(
                f"{added:,} files put into {self.bucket} in {time.perf_counter() - begun:.0f} s",
                file=sys.stderr,
            )
        time.sleep(3)  # the store counts in whole seconds

    def forget_index(self) -> None:
        """Make the next run a cold one."""
        self.store.ask("drop", {"bucket": self.bucket, "prefix": f"{self.prefix}/{INDEX}/"})

    def present(self) -> set[str]:
        """Addresses of the objects that are there now."""
        start = f"{self.prefix}/"
        query = f"keys?bucket={self.bucket}&prefix={quote(start + 'data/')}"
        return {key.removeprefix(start) for key in self.store.ask(query)}

    def bare(self) -> dict[str, Any]:
        """List page by page, and delete as many keys as there is garbage, 1,000 a request, with a bare client."""
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.store.environ["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id=S3_KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=S3_KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        count = self.shape.garbage
        begun = time.perf_counter()
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self.prefix}/data/"
        )
        listed = sum(page["KeyCount"] for page in pages)
        list_seconds = time.perf_counter() - begun
        self.store.ask("plant", {"bucket": self.bucket, "prefix": "bare", "count": count})
        begun = time.perf_counter()
        for start in range(0, count, 1000):
            keys = [{"Key": f"bare/{number:07d}"} for number in range(start, min(count, start + 1000))]
            client.delete_objects(Bucket=self.bucket, Delete={"Objects": keys, "Quiet": False})
        return _bare(listed, list_seconds, count, time.perf_counter() - begun)


def _bare(listed: int, list_seconds: float, deleted: int, delete_seconds: float) -> dict[str, Any]:
    return {
        "bare_listed": listed,
        "bare_list_seconds": round(list_seconds, 2),
        "bare_deleted": deleted,
        "bare_delete_seconds": round(delete_seconds, 2),
    }


class S3Store:
    """A running store process, from outside.

    Args:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.environ = {**S3_KEYS, "AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1"}

    def ask(self, name: str, body: Any = None) -> Any:
        """Make a control call; see `s3_store`."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/_bench/{name}", data=data)) as answer:
            return json.load(answer)


@contextmanager
def s3_store() -> Iterator[S3Store]:
    """Run a store in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.s3_store"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield S3Store(int(process.stdout.readline()))
        finally:
            process.terminate()
