"""Writes a repository of a shape with the writers of lakeFS's files, and its expected result.

Without server and HTTP: ranges, metaranges, commit, branch and staging records are the same as of a server;
the slices of objects are an hour apart.
"""

import hashlib
import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from benchmarks.shapes import Shape
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from dredge.storage import ObjectWriter, StorageOptions, open_writer
from dredge.xid import new_descending_xid, new_xid
from lakefs_embedded.catalog.garbage import Rules, write_rules
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.store import RangeStore
from lakefs_embedded.committed.writing import Change, SplitRule, apply
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.refs.commits import new_commit
from lakefs_embedded.refs.records import Commit, branch_key, branch_record, commit_key, repository_record
from lakefs_embedded.staging.area import Staged

RETENTION_DAYS = 30
TABLES = 40


@dataclass
class Objects:
    """Names and contents of objects, slice by slice, deterministic by seed."""

    shape: Shape
    now: datetime
    seed: int = 7
    addresses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Name every object: slices an hour apart, the last one two days ago."""
        self._random = random.Random(self.seed)
        per_slice = -(-self.shape.objects // self.shape.slices)
        for number in range(self.shape.slices):
            begun = self.now - timedelta(days=2, hours=number)
            folder = new_descending_xid(begun)
            count = min(per_slice, self.shape.objects - len(self.addresses))
            self.addresses += [f"data/{folder}/{new_xid(begun)}" for _ in range(count)]
        self._random.shuffle(self.addresses)
        self._next = 0

    def content(self, address: str) -> bytes:
        """Return the unique content of an object, at least 40 bytes."""
        word = hashlib.sha256(f"{self.seed}{address}".encode()).hexdigest()
        length = 40 + int(word[:4], 16) % self.shape.lengths
        return (word * (length // len(word) + 1))[:length].encode()

    def entry(self) -> tuple[str, Entry]:
        """Return the next object's entry, as of an upload."""
        address = self.addresses[self._next]
        self._next += 1
        content = self.content(address)
        entry = Entry(
            address=address,
            size=len(content),
            etag=hashlib.md5(content).hexdigest(),
            last_modified=self.now - timedelta(days=3),
            content_type="application/octet-stream",
        )
        return address, entry


def generate(
    shape: Shape, namespace: str, kv_url: str, repository: str, options: StorageOptions | None = None
) -> pa.Table:
    """Write the repository.

    Args:
        shape: size and history.
        namespace: URI of the storage namespace, empty.
        kv_url: key-value store of the server.
        repository: its name.
        options: access to the object store.

    Returns:
        The expected result: address, live, why.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    store, kv = open_writer(namespace, options), open_store(kv_url)
    objects = Objects(shape, now)
    truth = dict.fromkeys(objects.addresses, (False, "orphan"))
    record = Repository(repository, namespace.rstrip("/"), "main", now, new_xid(now))
    line = list(_main_line(shape, store, objects, truth, now))
    for commit in line:
        kv.set(record.partition, commit_key(commit.id), commit.encode())
    _branches(shape, kv, record, line, objects, truth)
    write_rules(store, Rules(default_days=RETENTION_DAYS, branch_days={}))
    store.put("_lakefs/dummy", b"a namespace of lakeFS")
    kv.set(REPOSITORIES_PARTITION, repository_key(repository), repository_record(record))
    kv.close()
    _fill(store, objects)
    live, why = zip(*truth.values(), strict=True)
    return pa.table({"address": list(truth), "live": list(live), "why": list(why)})


def move(kv_url: str, repository: str, namespace: str) -> None:
    """Set another storage namespace in a repository's record, after its files were copied."""
    kv = open_store(kv_url)
    key = repository_key(repository)
    record = Repository.decode(kv.get(REPOSITORIES_PARTITION, key))
    kv.set(REPOSITORIES_PARTITION, key, repository_record(replace(record, storage_namespace=namespace)))
    kv.close()


def _main_line(
    shape: Shape, store: ObjectWriter, objects: Objects, truth: dict[str, tuple[bool, str]], now: datetime
) -> Iterator[Commit]:
    """Write main's commits: a large first one, then small ones that add and overwrite in a table each."""
    ranges = RangeStore(store)
    rule = SplitRule(raggedness=max(50, int(shape.base / max(10, shape.ranges / 14))))
    chooser = random.Random(objects.seed + 1)
    added = [{} for _ in range(shape.commits)]  # type: list[dict[str, Entry]]
    owner: dict[str, str] = {}
    paths = sorted(_path(index, shape.base) for index in range(shape.base))
    for path in paths:
        owner[path], added[0][path] = objects.entry()
    lost_in: list[list[str]] = [[] for _ in range(shape.commits)]
    expired = shape.commits // 5
    overwrites = shape.garbage // 2
    for number in range(shape.later):
        at = 1 + number % (shape.commits - 1)
        table = (
            at + number // (shape.commits - 1) % 3 * 13
        ) % TABLES  # each commit touches about three ranges
        path = f"table-{table:03d}/part-{at:05d}/new-{number:07d}.parquet"
        owner[path], added[at][path] = objects.entry()
    for _ in range(overwrites):
        at = chooser.randrange(1, expired)
        begin = int(at / expired * len(paths))
        path = paths[(begin + chooser.randrange(max(1, len(paths) // 200))) % len(paths)]
        if path in added[at]:
            continue
        lost_in[at].append(owner[path])
        owner[path], added[at][path] = objects.entry()
    yield from _write_line(shape, ranges, rule, added, now, expired)
    for entries in added:
        for entry in entries.values():
            truth[entry.address] = (True, "committed")
    for addresses in lost_in:
        for address in addresses:
            truth[address] = (False, "expired commit")


def _write_line(
    shape: Shape,
    ranges: RangeStore,
    rule: SplitRule,
    added: list[dict[str, Entry]],
    now: datetime,
    expired: int,
) -> Iterator[Commit]:
    parents: list[Commit] = []
    metarange_id = ""
    for number, entries in enumerate(added):
        changes = [Change(path.encode(), entry.value()) for path, entry in sorted(entries.items())]
        metarange_id = apply(ranges, metarange_id, changes, rule).metarange_id
        # Commit `expired` is the oldest within the rules; its parent also stays active.
        age = timedelta(days=RETENTION_DAYS * 2 if number <= expired else 10) - timedelta(minutes=number)
        commit = new_commit(
            committer="benchmark",
            message=f"commit {number}",
            creation_date=now - age,
            metarange_id=metarange_id,
            metadata={},
            parents=parents,
        )
        parents = [commit]
        yield commit


def _path(index: int, count: int) -> str:
    table = index * TABLES // count
    noise = index * 2654435761 % 2**32
    return f"table-{table:03d}/date=2026-{1 + index % 12:02d}/part-{index:07d}-{noise:08x}.parquet"


def _branches(
    shape: Shape,
    kv: Store,
    record: Repository,
    line: list[Commit],
    objects: Objects,
    truth: dict[str, tuple[bool, str]],
) -> None:
    """Write the branches: heads along the newer part of main, with staged entries."""
    young = line[len(line) // 5 + 2 :]
    for number in range(shape.branches):
        name = "main" if number == 0 else f"branch-{number:04d}"
        head = line[-1] if number == 0 else young[number * 7919 % len(young)]
        token = f"{record.name}-{name}:{uuid.UUID(int=number + 1, version=4)}"
        for row in range(shape.staged // shape.branches):
            address, entry = objects.entry()
            path = f"staged/{name}/{row:06d}.parquet".encode()
            kv.set(token.encode(), path, Staged(path, entry.value()).encode())
            truth[address] = (True, "staged")
        kv.set(record.partition, branch_key(name), branch_record(Branch(name, head.id, token)))


def _fill(store: ObjectWriter, objects: Objects) -> None:
    """Upload the objects."""
    base = store.uri.removeprefix("file://") if store.uri.startswith("file://") else None

    def put(address: str) -> None:
        if base is None:
            store.put(address, objects.content(address))
        else:
            Path(base, address).write_bytes(objects.content(address))

    if base is not None:
        for folder in {address.rpartition("/")[0] for address in objects.addresses}:
            Path(base, folder).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=8 if base is None else 2) as pool:
        for _ in pool.map(put, objects.addresses, chunksize=500):
            pass


def save_truth(truth: pa.Table, path: Path) -> None:
    """Save the expected result beside a generated lake."""
    pq.write_table(truth, path)
