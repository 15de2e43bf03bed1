"""Stores with every kind of trash, made row by row, and dumps of real ones."""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from dredge import xid
from dredge.kv.rows import Guard, Row, RowCleaner, RowView
from dredge.lakefs.files import messages
from dredge.lakefs.files.messages import to_timestamp
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.committed.entries import commit_id
from lakefs_embedded.kv import Entry, MemoryKV
from lakefs_embedded.refs.records import Commit, Tag, branch_record, repository_record
from tests.support.memory_rows import MemoryRows

FOLDER = Path(__file__).parents[1] / "fixtures" / "kv"
TRUTH: dict[str, Any] = json.loads((FOLDER / "truth.json").read_text())
START = datetime(2027, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
METARANGE = "ab" * 32


@cache
def dump(name: str) -> tuple[Row, ...]:
    rows = []
    for line in (FOLDER / f"{name}.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows.append(Row(*(base64.b64decode(row[part]) for part in ("partition", "key", "value"))))
    return tuple(rows)


class Store:
    """Any row cleaner, with a settable clock, and hooks."""

    def __init__(self, rows: RowCleaner, now: datetime = START) -> None:
        self.rows = rows
        self.now = now
        self.before_delete: list[Any] = []
        """Each is called once, before the next deletion."""
        self.after_delete: list[Any] = []
        """Each is called once, after the next deletion, whose answer is lost when it raises."""
        self.after_insert: list[Any] = []
        """Each is called once, after the next row was put back."""
        self.asked: list[list[Row]] = []
        """The rows of each deletion."""
        self.guards: list[list[Guard]] = []
        """And its guards."""
        self.deletions = 0
        self.own = ""

    @property
    def location(self) -> str:
        return self.rows.location

    @property
    def guards_max(self) -> int:
        return self.rows.guards_max

    def view(self) -> AbstractContextManager[RowView]:
        return self.rows.view()

    def clock(self) -> datetime:
        return self.now

    def own_id(self) -> str:
        return self.own or self.rows.own_id()

    def machine_clock(self) -> datetime:
        return self.now

    def delete_rows(self, rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        self.asked.append([*rows])
        self.guards.append([*guards])
        hooks, self.before_delete = self.before_delete, []
        for hook in hooks:
            hook()
        self.deletions += 1
        done = self.rows.delete_rows(rows, guards)
        hooks, self.after_delete = self.after_delete, []
        for hook in hooks:
            hook()
        return done

    def insert_row(self, row: Row) -> bool:
        done = self.rows.insert_row(row)
        hooks, self.after_insert = self.after_insert, []
        for hook in hooks:
            hook()
        return done

    def close(self) -> None:
        self.rows.close()

    def load(self, rows: Iterable[Row]) -> None:
        for row in rows:
            assert self.insert_row(row)

    def all_rows(self) -> set[Row]:
        with self.view() as view:
            return {Row(p, e.key, e.value) for p in view.partitions() for e in view.scan(p)}


class LiveView:
    """Reads of later states, like a store without snapshots."""

    consistent = False

    def __init__(self, kv: MemoryKV, rows: RowCleaner) -> None:
        self._kv = kv
        self._rows = rows

    def partitions(self) -> Iterator[bytes]:
        with self._rows.view() as view:
            yield from view.partitions()

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        return self._kv.scan(partition, start)


def memory_store(now: datetime = START) -> Store:
    return Store(MemoryRows(MemoryKV()), now)


class World:
    """Writes a server's rows into a store in memory."""

    def __init__(self, now: datetime = START) -> None:
        self.kv = MemoryKV()
        self.store = Store(MemoryRows(self.kv), now)
        self.kv.set(b"kv-internal-metadata", b"kv/schema/version", b"4")
        self.kv.set(b"auth", b"installation_id", b"one")

    @property
    def now(self) -> datetime:
        return self.store.now

    def commit(self, partition: bytes, parents: Sequence[str] = (), metarange: str = METARANGE) -> Commit:
        ids = tuple(parents)
        made = Commit(
            id=commit_id("me", "m", metarange, self.now, {}, ids),
            committer="me",
            message="m",
            creation_date=self.now,
            metarange_id=metarange,
            parents=ids,
            generation=2 if ids else 1,
        )
        self.kv.set(partition, b"commits/" + made.id.encode(), made.encode())
        return made

    def branch(
        self, partition: bytes, name: str, commit: str, token: str, sealed: Sequence[str] = ()
    ) -> None:
        record = Branch(name, commit, token, tuple(sealed))
        self.kv.set(partition, b"branches/" + name.encode(), branch_record(record))

    def tag(self, partition: bytes, name: str, commit: str) -> None:
        self.kv.set(partition, b"tags/" + name.encode(), Tag(name, commit).encode())

    def beginning(self, name: str, branch: str | None = "main", uid: str | None = None) -> tuple[bytes, str]:
        """First commit and branch of an instance, no record; returns its partition and the branch's token."""
        uid = uid or xid.new_xid(self.now)
        partition = f"{name}-{uid}".encode()
        first = self.commit(partition, metarange="")
        token = self.token(name, branch or "main")
        if branch:
            self.branch(partition, branch, first.id, token)
        return partition, token

    def hand_over(self, name: str) -> bytes:
        """The rows after a delete of step 2: the partition, and an entry for the cleaner."""
        partition, _ = self.beginning(name)
        self.kv.set(b"graveler_deleted", f"repo/{name}/{partition[-20:].decode()}".encode(), b"")
        return partition

    def record(self, partition: bytes, state: int = 0) -> bytes:
        name, uid = partition[:-21].decode(), partition[-20:].decode()
        value = self.record_value(name, uid, state)
        self.kv.set(b"graveler", b"repos/" + name.encode(), value)
        return value

    def record_value(self, name: str, uid: str, state: int = 0) -> bytes:
        made = Repository(name, f"s3://b/{name}", "main", self.now, uid)
        record = messages.RepositoryData.FromString(repository_record(made))
        record.state = state  # type: ignore[assignment]
        return messages.encode(record)

    def repository(self, name: str) -> tuple[bytes, str]:
        partition, token = self.beginning(name)
        self.record(partition)
        return partition, token

    _tokens = 0

    def token(self, repository: str, branch: str) -> str:
        self._tokens += 1
        return f"{repository}-{branch}:00000000-0000-4000-8000-{self._tokens:012d}"

    def stage(self, token: str, *paths: str) -> bytes:
        for path in paths or ("a/1", "a/2"):
            row = messages.StagedEntryData(key=path.encode(), identity=b"i", data=b"d")
            self.kv.set(token.encode(), path.encode(), messages.encode(row))
        return token.encode()

    def queue(self, token: str) -> None:
        self.kv.set(b"cleanup-tokens", token.encode(), b"stub-value")

    def pull_index(self, partition: bytes, source: str, target: str, made: datetime | None = None) -> bytes:
        pull = countdown_id(made or self.now)
        key = b"repos/" + partition + f"/{source}/{target}".encode()
        self.kv.set(b"pulls", key, messages.encode(messages.SecondaryIndex(primary_key=pull.encode())))
        return key

    def run(
        self, repository: str, began: datetime, with_run: bool = True, start: datetime | None = None
    ) -> str:
        """A hook run with its task and indexes; `start` is the time in its record, if different."""
        run = countdown_id(began)
        base = f"repos/{repository}"
        index = messages.encode(messages.SecondaryIndex(primary_key=f"{base}/runs/{run}".encode()))
        self.kv.set(b"actions", f"{base}/tasks/{run}/0000_0000".encode(), b"")
        self.kv.set(b"actions", f"{base}/branches/main/{run}".encode(), index)
        if with_run:
            record = messages.RunResultData(run_id=run, start_time=to_timestamp(start or began))
            self.kv.set(b"actions", f"{base}/runs/{run}".encode(), messages.encode(record))
        return run

    def import_status(self, partition: bytes, updated: datetime | None) -> bytes:
        key = b"imports/" + xid.new_xid(self.now).encode()
        record = messages.ImportStatusData(id=key[8:].decode())
        if updated:
            record.updated_at.CopyFrom(to_timestamp(updated))
        self.kv.set(partition, key, messages.encode(record))
        return key

    def owner(self, repository: str, branch: str, expires: datetime) -> bytes:
        key = f"run-refs/approximate-branch-owner/{len(repository)}:{repository}/{branch}".encode()
        hint = messages.BranchOwnership(owner="o", expires=to_timestamp(expires))
        self.kv.set(b"mc-ownership", key, messages.encode(hint))
        return key


def countdown_id(when: datetime) -> str:
    """An id like those of action runs and pull requests."""
    seconds = (32_500_915_200 - int(when.timestamp())) % (1 << 32)
    return xid.new_xid(datetime.fromtimestamp(seconds, UTC))
