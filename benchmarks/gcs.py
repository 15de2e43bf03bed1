"""Listing and deleting on Google Cloud Storage, compared with the bare SDK on the same emulator.

    python -m benchmarks.gcs [--objects N] [--repeat N]

Goal: at least 80 % of the bare SDK's rate. The SDK deletes one object a request, with as many threads as the
bare client of the other benchmarks, because the emulator does not support its batches.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.bare_clients import GcsClient
from benchmarks.pairs import Pairs
from benchmarks.requests import CloudRequests
from demo.stores.fake_gcs import fake_gcs_process, make_bucket
from dredge.storage import ListedDeleter, ObjectInfo, StorageOptions, open_deleter, open_reader, open_writer


@click.command()
@click.option("--objects", default=5_000, show_default=True, help="Objects listed and deleted.")
@click.option("--repeat", default=5, show_default=True, help="Pairs of rounds.")
def main(objects: int, repeat: int) -> None:
    """Measure listing and deleting."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "requests.log"
        with fake_gcs_process(None, log) as (options, _):
            os.environ["STORAGE_EMULATOR_HOST"] = str(options.gcs.endpoint_url)
            requests = CloudRequests(log)
            bench = _Bench(make_bucket(options, "bench"), options, objects)
            pairs = Pairs(objects, lambda: requests.counts().total(), repeat)
            pairs.compare("listing", bench.list, bench.bare_list)
            pairs.compare("deleting", bench.delete, bench.bare_delete, bench.plant)


class _Bench:
    def __init__(self, uri: str, options: StorageOptions, objects: int) -> None:
        self._uri, self._options = f"{uri}/lake", options
        self._names = [f"data/slice-{number % 50:04d}/object-{number:08d}" for number in range(objects)]
        self._bare = GcsClient(self._uri)
        self._listed: list[ObjectInfo] = []
        self.plant()

    def plant(self) -> None:
        """Upload all objects, and list them as a run does."""
        writer = open_writer(self._uri, self._options)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: writer.put(name, b"x"), self._names))
        rows = (row for batch in writer.list("data/") for row in batch.to_pylist())
        self._listed = [ObjectInfo(**row) for row in rows]

    def list(self) -> int:
        """List with Dredge."""
        return sum(batch.num_rows for batch in open_reader(self._uri, self._options).list("data/"))

    def bare_list(self) -> int:
        """List with the SDK."""
        return len(self._bare.list("data/"))

    def delete(self) -> int:
        """Delete the listed objects with Dredge."""
        deleter = open_deleter(self._uri, self._options)
        assert isinstance(deleter, ListedDeleter)
        return sum(item.outcome == "deleted" for item in deleter.delete_listed(self._listed))

    def bare_delete(self) -> int:
        """Delete by name with the SDK."""
        self._bare.delete(self._names)
        return len(self._names)


if __name__ == "__main__":
    main()
