"""Generates lakes of millions of objects: real ranges, metaranges, commits, branches and staging records, no
objects.

Of 100 objects one is staged and five are garbage; the others are committed. Each range has further versions
with one entry less each, so that all ranges together have 2.5 entries for each object.
"""

import shutil
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import batched

import numpy as np
import numpy.typing as npt

from benchmarks.s3_store import STATE
from benchmarks.scale_store import COUNTERS, DELETED, Virtual, etags, sizes
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from dredge.storage import ObjectWriter, open_writer
from dredge.xid import new_xid
from lakefs_embedded.catalog.garbage import Rules, write_rules
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.tables import write_table
from lakefs_embedded.committed.writing import write_metarange
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.refs.commits import new_commit
from lakefs_embedded.refs.records import Commit, branch_key, commit_key
from lakefs_embedded.staging.area import Staged

REPOSITORY = "scale"
ENTRIES_AN_OBJECT = 2.5
RANGE_ENTRIES = 50_000
COMMITS, BRANCHES = 20, 20

type _Numbers = npt.NDArray[np.int64]


class ScaleLake:
    """A generated lake.

    Args:
        objects: number of objects; lakes with the same number are shared.
    """

    def __init__(self, objects: int) -> None:
        self.objects = objects
        self.folder = STATE / f"scale-{objects}"
        self.root = self.folder / "objects" / "repo"
        self.kv_url = f"sqlite:///{self.folder}/kv.db"
        self.namespace = f"local://{self.root}"

    def make(self) -> None:
        """Generate the lake if it does not exist."""
        if (self.folder / "complete").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root.mkdir(parents=True)
        now = datetime.now(UTC).replace(microsecond=0)
        virtual = Virtual(self.objects, (now - timedelta(days=2)).isoformat())
        virtual.write(self.folder)
        store, kv = open_writer(f"file://{self.root}"), open_store(self.kv_url)
        record = Repository(REPOSITORY, self.namespace, "main", now, new_xid(now))
        line = list(_line(self._ranges(), store, now))
        for commit in line:
            kv.set(record.partition, commit_key(commit.id), commit.encode())
        _branches(kv, record, line, virtual, now)
        write_rules(store, Rules(default_days=30, branch_days={}))
        store.put("_lakefs/dummy", b"a namespace of lakeFS")
        kv.set(REPOSITORIES_PARTITION, repository_key(REPOSITORY), record.encode())
        kv.close()
        (self.folder / "complete").touch()

    def restore(self) -> None:
        """Restore deleted objects, and remove the files of earlier runs."""
        (self.folder / DELETED).write_bytes(bytes(self.objects))
        shutil.rmtree(self.folder / COUNTERS, ignore_errors=True)
        for written in ("dredge", "unified"):
            shutil.rmtree(self.root / "_lakefs" / "retention" / "gc" / written, ignore_errors=True)

    def check(self) -> dict[str, int]:
        """Compare the store with the expected result after a run."""
        deleted = np.fromfile(self.folder / DELETED, np.uint8).astype(bool)
        garbage = is_garbage(np.arange(self.objects))
        counts = {"deleted": deleted & garbage, "missed": ~deleted & garbage, "lost": deleted & ~garbage}
        return {name: int(found.sum()) for name, found in counts.items()}

    @property
    def versions(self) -> list[int]:
        """Return the number of versions of each range."""
        ranges = -(-int(is_committed(np.arange(self.objects)).sum()) // RANGE_ENTRIES)
        wanted = round(self.objects * ENTRIES_AN_OBJECT / RANGE_ENTRIES)
        return [wanted // ranges + (number < wanted % ranges) for number in range(ranges)]

    def _ranges(self) -> list[list[RangeInfo]]:
        """Write all ranges; returns the versions of each."""
        versions = self.versions
        jobs = range(len(versions))
        with ProcessPoolExecutor(2) as pool:
            return list(pool.map(_write_range, [self] * len(jobs), jobs, versions))


def is_garbage(numbers: _Numbers) -> npt.NDArray[np.bool_]:
    """Return the mask of unreferenced objects."""
    return numbers % 20 == 7


def is_staged(numbers: _Numbers) -> npt.NDArray[np.bool_]:
    """Return the mask of objects in staging only."""
    return numbers % 100 == 3


def is_committed(numbers: _Numbers) -> npt.NDArray[np.bool_]:
    """Return the mask of committed objects."""
    return ~(is_garbage(numbers) | is_staged(numbers))


def _write_range(lake: ScaleLake, number: int, versions: int) -> list[RangeInfo]:
    """Write the versions of one range; all but the first lack one entry."""
    virtual, store = Virtual.read(lake.folder), open_writer(f"file://{lake.root}")
    numbers = np.arange(lake.objects)
    chosen = numbers[is_committed(numbers)][number * RANGE_ENTRIES : (number + 1) * RANGE_ENTRIES]
    records = [(path, entry.value().encode()) for path, entry in _entries(virtual, chosen)]
    found = []
    for version in range(versions):
        lacking = version * 997 % len(records)
        table = write_table(record for at, record in enumerate(records) if not version or at != lacking)
        store.put(f"_lakefs/{table.id}", table.data)
        found.append(table.info)
    return found


def _entries(virtual: Virtual, numbers: _Numbers) -> Iterator[tuple[bytes, Entry]]:
    columns = zip(
        numbers.tolist(), virtual.addresses(numbers), sizes(numbers).tolist(), etags(numbers), strict=True
    )
    modified = datetime.fromisoformat(virtual.newest)
    for number, address, size, etag in columns:
        path = f"warehouse/table={number // 1_000_000:03d}/part-{number:09d}.parquet".encode()
        yield path, Entry(address, size=size, etag=etag, last_modified=modified)


def _line(ranges: Sequence[list[RangeInfo]], store: ObjectWriter, now: datetime) -> Iterator[Commit]:
    """Write metaranges: the first has every range's first version, each later one replaces some with their
    next.
    """
    current = [versions[0] for versions in ranges]
    most = max(len(versions) for versions in ranges)
    steps = [(at, turn) for turn in range(1, most) for at, found in enumerate(ranges) if turn < len(found)]
    parents: list[Commit] = []
    changes = [(), *batched(steps, max(1, -(-len(steps) // COMMITS)))]
    for number, change in enumerate(changes):
        for at, turn in change:
            current[at] = ranges[at][turn]
        table = write_metarange(current)
        store.put(f"_lakefs/{table.id}", table.data)
        commit = new_commit(
            committer="benchmark",
            message=f"commit {number}",
            creation_date=now - timedelta(days=10, minutes=-number),
            metarange_id=table.id,
            metadata={},
            parents=parents,
        )
        parents = [commit]
        yield commit


def _branches(kv: Store, record: Repository, line: Sequence[Commit], virtual: Virtual, now: datetime) -> None:
    """Write the branches, with staged entries on all but main."""
    numbers = np.arange(virtual.objects)
    shares = np.array_split(numbers[is_staged(numbers)], BRANCHES)
    kv.set(record.partition, branch_key("main"), Branch("main", line[-1].id, _token(0)).encode())
    for number, share in enumerate(shares, 1):
        name = f"branch-{number:04d}"
        for path, entry in _entries(virtual, share):
            staged = b"staged/" + path
            kv.set(_token(number).encode(), staged, Staged(staged, entry.value()).encode())
        head = line[number % len(line)]
        kv.set(record.partition, branch_key(name), Branch(name, head.id, _token(number)).encode())


def _token(number: int) -> str:
    return f"{REPOSITORY}-{number:04d}:{uuid.UUID(int=number + 1, version=4)}"
