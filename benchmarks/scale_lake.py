"""Generates lakes of millions of objects: real metaranges, commits, branches and staging records, made-up ranges, no
objects.

Of 100 objects one is staged and five are garbage; the others are committed. Each range has further versions
with one entry less each, so that all ranges together have 2.5 entries for each object.
"""

import json
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import batched
from pathlib import Path

import numpy as np

from benchmarks.s3_store import STATE
from benchmarks.scale_objects import PER_SLICE, Virtual
from benchmarks.scale_ranges import MARK, describe, entries, is_garbage, is_staged, make, path_of
from benchmarks.scale_store import deleted, restore
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from dredge.storage import ObjectWriter, open_writer
from dredge.xid import new_xid
from lakefs_embedded.catalog.garbage import Rules, write_rules
from lakefs_embedded.committed.writing import write_metarange
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.refs.commits import new_commit
from lakefs_embedded.refs.records import Commit, branch_key, branch_record, commit_key, repository_record
from lakefs_embedded.staging.area import Staged

REPOSITORY = "scale"
ENTRIES_AN_OBJECT = 2.5
COMMITS, BRANCHES = 20, 20
FOLDER = STATE / "scale"
_MARK_SIZE_MAX = 64


class ScaleLake:
    """A generated lake.

    Args:
        objects: number of objects, in whole slices; lakes with the same number are shared.
    """

    def __init__(self, objects: int, folder: Path = FOLDER) -> None:
        if not objects or objects % PER_SLICE:
            raise ValueError(f"{objects:,} objects are not whole slices of {PER_SLICE:,}")
        self.objects = objects
        self.folder = folder / str(objects)
        self.root = self.folder / "objects" / "repo"
        self.kv_url = f"sqlite:///{self.folder}/kv.db"
        self.namespace = f"local://{self.root}"

    def make(self) -> None:
        """Generate the lake if it does not exist, or the rest of one."""
        if (self.folder / "complete").exists():
            return
        self.root.mkdir(parents=True, exist_ok=True)
        described = self.folder / "ranges.jsonl"
        if not described.exists():
            newest = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
            Virtual(self.objects, newest.isoformat()).write(self.folder)
            described.touch()
        virtual = Virtual.read(self.folder)
        self._make_ranges(described, virtual)
        ranges = [_parse(line) for line in described.read_text().splitlines()]
        (self.folder / "kv.db").unlink(missing_ok=True)
        now = virtual.modified(0) + timedelta(days=2)
        store, kv = open_writer(f"file://{self.root}"), open_store(self.kv_url)
        record = Repository(REPOSITORY, self.namespace, "main", now, new_xid(now))
        line = list(_line(ranges, store, now))
        for commit in line:
            kv.set(record.partition, commit_key(commit.id), commit.encode())
        with closing(sqlite3.connect(self.folder / "kv.db")) as database, database:
            database.executemany("INSERT INTO kv VALUES (?, ?, ?)", _staged(virtual))
        _branches(kv, record, line)
        write_rules(store, Rules(default_days=30, branch_days={}))
        store.put("_lakefs/dummy", b"a namespace of lakeFS")
        kv.set(REPOSITORIES_PARTITION, repository_key(REPOSITORY), repository_record(record))
        kv.close()
        (self.folder / "complete").touch()

    def fill_ranges(self) -> None:
        """Write the contents of range files (240 MB for a million objects), so that no reader makes them up."""
        empty = [
            place
            for place in (self.root / "_lakefs").iterdir()
            if place.is_file() and place.stat().st_size < _MARK_SIZE_MAX
        ]
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(_fill_range, [Virtual.read(self.folder)] * len(empty), empty))

    def restore(self) -> None:
        """Restore deleted objects, and remove the files of earlier runs."""
        restore(self.folder)
        for written in ("dredge", "unified"):
            shutil.rmtree(self.root / "_lakefs" / "retention" / "gc" / written, ignore_errors=True)

    def check(self) -> dict[str, int]:
        """Compare the store with the expected result after a run."""
        gone, garbage = deleted(self.folder), is_garbage(np.arange(100))
        gone = gone.reshape(-1, len(garbage))
        ours, lost = int(gone[:, garbage].sum()), int(gone[:, ~garbage].sum())
        return {"deleted": ours, "missed": int(garbage.sum()) * len(gone) - ours, "lost": lost}

    @property
    def versions(self) -> list[int]:
        """Return the number of versions of each range."""
        ranges = self.objects // PER_SLICE
        committed = PER_SLICE // 100 * int((~(is_garbage(np.arange(100)) | is_staged(np.arange(100)))).sum())
        wanted = round(self.objects * ENTRIES_AN_OBJECT / committed)
        return [wanted // ranges + (number < wanted % ranges) for number in range(ranges)]

    def _make_ranges(self, described: Path, virtual: Virtual) -> None:
        """Describe the ranges that a file lacks: a line each, in order."""
        versions = self.versions
        todo = range(len(described.read_text().splitlines()), len(versions))
        with ProcessPoolExecutor(2) as pool, described.open("a") as file:
            for found in pool.map(self._make_range, [virtual] * len(todo), todo, versions[todo.start :]):
                file.write(json.dumps([_words(info) for info in found]) + "\n")
                file.flush()

    def _make_range(self, virtual: Virtual, number: int, versions: int) -> list[RangeInfo]:
        found = describe(virtual, number, versions)
        for version, info in enumerate(found):
            place = self.root / "_lakefs" / info.id
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(MARK + b"%d %d" % (number, version))
        return found


def _fill_range(virtual: Virtual, place: Path) -> None:
    mark = place.read_bytes()
    if mark.startswith(MARK):
        filled = place.with_name(f"{place.name}.part")
        filled.write_bytes(make(virtual, mark))
        filled.replace(place)


def _words(info: RangeInfo) -> list[str | int]:
    return [info.id, info.min_key.decode(), info.max_key.decode(), info.estimated_size, info.count]


def _parse(line: str) -> list[RangeInfo]:
    return [
        RangeInfo(range_id, first.encode(), last.encode(), size, count)
        for range_id, first, last, size, count in json.loads(line)
    ]


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


def _branches(kv: Store, record: Repository, line: Sequence[Commit]) -> None:
    """Write the branches."""
    kv.set(record.partition, branch_key("main"), branch_record(Branch("main", line[-1].id, _token(0))))
    for number in range(1, BRANCHES + 1):
        name, head = f"branch-{number:04d}", line[number % len(line)]
        kv.set(record.partition, branch_key(name), branch_record(Branch(name, head.id, _token(number))))


def _staged(virtual: Virtual) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the rows of staged entries, on all branches but main."""
    for number, share in enumerate(np.array_split(np.arange(3, virtual.objects, 100), BRANCHES), 1):
        for item, entry in zip(share.tolist(), entries(virtual, share), strict=True):
            path = f"staged/{path_of(item)}".encode()
            yield _token(number).encode(), path, Staged(path, entry.value()).encode()


def _token(number: int) -> str:
    return f"{REPOSITORY}-{number:04d}:{uuid.UUID(int=number + 1, version=4)}"
