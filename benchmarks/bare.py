"""A minimal collection: `python -m benchmarks.bare NAMESPACE REPOSITORY` prints JSON.

One process, the store's native client, no guards, no run folder, no re-check, no ledger, no verification.
Dredge's figures are ratios to its cost.

    list        every object below data/, page by page
    scan        get the uncommitted addresses from the server, and read their files; with the variable of the
                key-value store, read the branches and their staging tokens from it instead
    fetch       get the active commits from the server, and read their metaranges and ranges in parallel
    decode      read the addresses out of the ranges
    difference  listed minus committed minus uncommitted
    delete      the rest, 1,000 keys a request
"""

import csv
import io
import itertools
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bare_clients import Client, open_client
from benchmarks.requests import open_requests
from dredge.cli import own_process
from dredge.compiled import kernels
from dredge.gc.mark_uncommitted.kv_store import URL as KV_URL
from dredge.hashing import Hashes, hash64
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files import messages
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from dredge.lakefs.files.sstable import METARANGES, read_table
from dredge.lakefs.files.sstable.columns import decode_ranges
from lakefs_embedded.kv import open_store
from lakefs_embedded.refs.records import branch_key

FORMAT = "_lakefs/"


class Parts:
    """Seconds and requests of each part."""

    def __init__(self) -> None:
        self._counted = open_requests(os.environ)
        self.seconds: dict[str, float] = {}
        self.requests: dict[str, dict[str, int]] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure the block."""
        before = self._counted.counts() if self._counted else Counter()
        begun = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - begun, 3)
        if self._counted:
            self.requests[name] = dict(self._counted.counts() - before)


def main() -> None:
    """Collect once and print the cost."""
    own_process()  # as the command line
    namespace, repository = sys.argv[1:]
    store = open_client(namespace)
    parts = Parts()
    _get_ready()
    begun = time.perf_counter()
    with parts.part("list"):
        listed = store.list("data/")
    with parts.part("scan"):
        url = os.environ.get(KV_URL)
        staged = scan_kv(url, repository) if url else scan(store, namespace, repository)
    with parts.part("fetch"):
        ranges = fetch(store, repository, namespace)
    with parts.part("decode"):
        live = decode(ranges)
    with parts.part("difference"):
        hashes = hash64(listed)
        garbage = listed.filter(pa.array(~np.isin(hashes, np.concatenate([live, staged]))))
    with parts.part("delete"):
        store.delete(garbage.to_pylist())
    figures = {
        "seconds": parts.seconds,
        "requests": parts.requests,
        "total": round(time.perf_counter() - begun, 2),
        "driver_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "listed": len(listed),
        "ranges": len(ranges),
        "deleted": len(garbage),
    }
    print(json.dumps(figures))


def _get_ready() -> None:
    """Import lazily loaded modules, so that the figures exclude start-up."""
    LakeFSClient.from_env().version()
    kernels()
    pq.read_table(_parquet_of_nothing(), columns=["a"])


def _parquet_of_nothing() -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    return pa.BufferReader(sink.getvalue())


def scan(store: Client, namespace: str, repository: str) -> Hashes:
    """Return hashes of the uncommitted addresses."""
    client, token, folders = LakeFSClient.from_env(), None, set()
    while True:
        page = client.prepare_uncommitted(repository, token)
        folders.add(_key(page.location, namespace))
        if (token := page.token) is None:
            break
    names = [
        name for folder in folders if folder for name in store.list(folder.rstrip("/") + "/").to_pylist()
    ]
    tables = [
        pq.read_table(pa.BufferReader(data), columns=["physical_address"]) for data in store.get_all(names)
    ]
    return hash64(pa.concat_tables(tables)["physical_address"]) if tables else np.empty(0, np.uint64)


def scan_kv(url: str, repository: str) -> Hashes:
    """Return hashes of the uncommitted addresses in the key-value store."""
    with open_store(url) as store:
        partition = Repository.decode(store.get(REPOSITORIES_PARTITION, repository_key(repository))).partition
        rows = itertools.takewhile(
            lambda row: row.key.startswith(branch_key("")), store.scan(partition, branch_key(""))
        )
        tokens = {token for row in rows for token in Branch.decode(row.value).tokens}
        staged = (
            messages.StagedEntryData.FromString(row.value)
            for token in tokens
            for row in store.scan(token.encode())
        )
        return hash64(
            pa.array(
                [messages.Entry.FromString(record.data).address for record in staged if record.identity],
                pa.string(),
            )
        )


def fetch(store: Client, repository: str, namespace: str) -> list[tuple[str, bytes]]:
    """Return all distinct ranges of the active commits."""
    prepared = LakeFSClient.from_env().prepare_commits(repository, 900)
    assert prepared is not None
    [text] = store.get_all([_key(prepared.location, namespace)])
    rows = csv.DictReader(io.StringIO(text.decode()))
    metaranges = sorted({row["metarange_id"] for row in rows} - {""})
    found: set[tuple[bytes, bytes, str]] = set()
    for name, data in zip(metaranges, store.get_all([FORMAT + name for name in metaranges]), strict=True):
        records = read_table(data, name, kind=METARANGES, expected_id=name).records
        infos = (RangeInfo.decode(record.key, record.value, name) for record in records)
        found.update((info.min_key, info.max_key, info.id) for info in infos)
    names = [
        range_id for _, _, range_id in sorted(found)
    ]  # versions of a range are neighbours: decoded faster
    return list(zip(names, store.get_all([FORMAT + name for name in names]), strict=True))


def decode(ranges: list[tuple[str, bytes]]) -> Hashes:
    """Return hashes of the addresses in ranges."""
    batches = decode_ranges(ranges, ("address_hash",))
    return np.unique(np.concatenate([np.asarray(batch.column(0)) for _, batch in batches]))


def _key(location: str, namespace: str) -> str:
    return location.removeprefix(namespace.replace("file://", "local://").rstrip("/") + "/")


if __name__ == "__main__":
    main()
