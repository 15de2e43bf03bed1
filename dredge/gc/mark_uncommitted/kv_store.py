"""lakeFS's key-value store: access to it, the records of one repository, and the check that it is the server's own.

    graveler                repos/<name>          the partition of the repository
    <repository partition>  branches/<name>       head, staging token, sealed tokens; with hidden branches
                            tags/<name>           commit
                            commits/<id>          parents, date, metarange; with dangling commits
                            copies/<xid>          an address shared by two paths (only in the embedded lakeFS)
    <staging token>         <path>                staged entry; a tombstone has no identity

A record with an unknown field was written by a newer server, which may keep data alive in an unknown way. It is read
and noted, so the records do not count as complete.

The check. A copy of the store (a restored backup, a delayed replica, another environment's database) has the right
repository and often the right heads, but lacks newer staged entries. So the server is made to write a value that no
copy can have: for its usage report (L80), a server adds its served requests to a counter in its store and returns the
sum. All servers of an installation share the counter, and it never decreases:

    server says c0, then c1 > c0   →   the store is opened, and has c   →   server says c2          c1 ≤ c ≤ c2
                                       the records are read
    server says c3 > c2            →   the store is opened, and has d   →   server says c4          c3 ≤ d ≤ c4

The counter reached c1 after the answer c0, so a store with at least c1 has a later state of the server's store, as a
snapshot or an ordered copy. Another installation's counter would have to equal one of the few values counted during
one read, twice. (In the minutes of the records, a busy server counts thousands, so they are outside both bounds.)

    proved     conclusions from the records alone are allowed
    doubtful   unknown: the server has no such report, or does not count
    partial    records have unknown fields, so there may be other data
    refuted    the counter differs: entries without a record may exist

The counter is read in its own view, closed before the next request: behind a connection pooler shared with lakeFS,
the server may need the session. The records are read in a later view, whose counter must not be lower. In PostgreSQL
and SQLite a view is a snapshot of its first read, the counter's. DynamoDB has no snapshots, but each read is
consistent and later than the read before, so callers must read in a safe order; a replicated table must be read in
the servers' region. Also, a branch that did not move on the server during the read must have the same head in the
store.

Source: lakeFS pkg/graveler/graveler.proto, pkg/graveler/model.go; pkg/stats/usage_counter.go and
pkg/api/controller.go (GetUsageReportSummary), behaviour only
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.gc.namespaces import Keys, canonical_namespace
from dredge.kv.opening import open_row_reader
from dredge.kv.rows import RowReader, RowView, show_key
from dredge.lakefs import Commit, CommitText, LakeFSClient, Ref, Usage
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from dredge.storage.parallel import at_once

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from dredge.kv.dynamodb import AwsKeys

# Tasks get access by environment variables, never by plans or arguments: URLs and keys are secrets.
URL = "DREDGE_KV_URL"
ACCESS_KEY = "DREDGE_KV_ACCESS_KEY_ID"
SECRET_KEY = "DREDGE_KV_SECRET_ACCESS_KEY"
SESSION_TOKEN = "DREDGE_KV_SESSION_TOKEN"
_BRANCHES, _TAGS, _COMMITS, _COPIES = b"branches/", b"tags/", b"commits/", b"copies/"
_SCHEMA = (b"kv-internal-metadata", b"kv/schema/version")
_SCHEMA_VERSION = b"4"
_USAGE = b"usage"
# Requests until the counter grows; without a usage report it never does.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class KVAccess:
    """Location and credentials of lakeFS's key-value store."""

    # `postgresql://…`, `dynamodb://…` or `sqlite:///…`; it may contain a password
    url: str = field(repr=False)
    # for DynamoDB; None for the credentials of the environment
    keys: AwsKeys | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> KVAccess:
        """Read the variables of `to_env`; raises ConfigError if they are not set."""
        env = os.environ if environ is None else environ
        if not env.get(URL):
            raise ConfigError(
                f"this run was planned to read lakeFS's key-value store, but {URL} is not set here. Nothing was"
                " deleted. Name the connection of the store (kv_conn_id) to every task, or plan a run without it."
            )
        if not env.get(ACCESS_KEY) or not env.get(SECRET_KEY):
            return cls(env[URL])
        from dredge.kv.dynamodb import AwsKeys

        return cls(env[URL], AwsKeys(env[ACCESS_KEY], env[SECRET_KEY], env.get(SESSION_TOKEN) or None))

    def to_env(self) -> dict[str, str]:
        """Return the variables for a child process, secrets included."""
        found = {URL: self.url}
        if self.keys is not None:
            found |= {ACCESS_KEY: self.keys.access_key_id, SECRET_KEY: self.keys.secret_access_key}
            if self.keys.session_token:
                found[SESSION_TOKEN] = self.keys.session_token
        return found

    def open(self) -> closing[RowReader]:
        """Open the store read-only."""
        return closing(open_row_reader(self.url, keys=self.keys))

    @contextmanager
    def records(self, repository: str, namespace: str) -> Iterator[RepositoryRecords]:
        """Open the records of a repository, without the check of the store (`read_checked`)."""
        with self.open() as store, store.view() as view:
            yield RepositoryRecords(repository, namespace, view, store.location)


class RepositoryRecords:
    """Reads the records of a repository. Each call reads them again. `location`: the store, without credentials. Raises
    RefusedError: it is not the store of this repository."""

    def __init__(self, repository: str, namespace: str, view: RowView, location: str) -> None:
        self.location = location
        self.heads: dict[str, str] = {}  # commit by branch, as last read
        self.unknown: list[str] = []  # names of some records with unknown fields
        self.keys = Keys(namespace=namespace)  # the keys to find in entries; by default the repository's own
        self._view = view
        schema = self._one(*_SCHEMA)
        if schema is not None and schema != _SCHEMA_VERSION:
            raise RefusedError(
                f"{location} has schema version {schema.decode('ascii', 'replace')}; this version reads"
                f" {_SCHEMA_VERSION.decode()}. Nothing was deleted."
            )
        self._partition = self._find_repository(repository, namespace).partition

    @property
    def consistent(self) -> bool:
        """Whether all reads are of one snapshot."""
        return self._view.consistent

    def branches(self) -> list[Branch]:
        """Read all branches, with hidden branches, in name order."""
        found = []
        for name, value in self.rows(_BRANCHES):
            self._note_unknown(messages.BranchData, _BRANCHES + name, value)
            branch = Branch.decode(value)
            if branch.name.encode() != name:
                raise FormatError(
                    f"{show_key(self._partition, _BRANCHES + name)}: the record has another name."
                )
            found.append(branch)
        self.heads |= {branch.name: branch.commit_id for branch in found}
        return found

    def tags(self) -> list[Ref]:
        """Read all tags, in name order."""
        found = []
        for name, value in self.rows(_TAGS):
            record = self._note_unknown(messages.TagData, _TAGS + name, value)
            found.append(Ref(record.id, record.commit_id))
        return found

    def commits(self) -> dict[str, Commit]:
        """Read all commits by id, with dangling commits."""
        found = {}
        for name, value in self.rows(_COMMITS):
            record = self._note_unknown(messages.CommitData, _COMMITS + name, value)
            if record.id.encode() != name:
                raise FormatError(f"{show_key(self._partition, _COMMITS + name)}: the record has another id.")
            found[record.id] = Commit(
                record.id,
                tuple(record.parents),
                messages.from_timestamp(record.creation_date),
                record.meta_range_id,
                record.version,
                CommitText(record.committer, record.message, dict(record.metadata), record.generation),
            )
        return found

    def staged(self, token: str) -> Iterator[tuple[str, ...]]:
        """Yield the possible keys of each entry of a staging token, without tombstones."""
        return (keys for _, keys in self.entries(token))

    def entries(self, token: str) -> Iterator[tuple[bytes, tuple[str, ...]]]:
        """Yield the path and the possible keys of each entry of a staging token, without tombstones."""
        partition = token.encode()
        for row in self._view.scan(partition):
            record = self._note_unknown(messages.StagedEntryData, row.key, row.value, partition)
            if record.identity:
                entry = self._note_unknown(messages.Entry, row.key, record.data, partition)
                yield row.key, self._keys(entry)

    def copies(self) -> Iterator[tuple[str, ...]]:
        """Yield the possible keys of each recorded copy. Read them after all staged entries: a rename stages the new
        path before it deletes the old path."""
        for name, value in self.rows(_COPIES):
            yield self._keys(self._note_unknown(messages.Entry, _COPIES + name, value))

    def rows(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the repository's rows below a prefix: the rest of each key, and the value."""
        for entry in self._view.scan(self._partition, prefix):
            if not entry.key.startswith(prefix):
                return
            yield entry.key.removeprefix(prefix), entry.value

    def _keys(self, entry: messages.Entry) -> tuple[str, ...]:
        if not self.keys.own and int(entry.address_type) == AddressType.RELATIVE:
            return ()
        return address_readings(entry.address, entry.address_type, self.keys.namespace)

    def _find_repository(self, name: str, namespace: str) -> Repository:
        value = self._one(REPOSITORIES_PARTITION, repository_key(name))
        if value is None:
            raise RefusedError(
                f"{self.location} has no repository {name}: it is another installation's store. Nothing was deleted."
                " Correct kv_conn_id."
            )
        self._note_unknown(messages.RepositoryData, repository_key(name), value)
        repository = Repository.decode(value)
        other = canonical_namespace(repository.storage_namespace) != canonical_namespace(namespace)
        if repository.in_deletion or other:
            raise RefusedError(
                f"repository {name} is on {repository.storage_namespace} in {self.location}"
                f"{' and being deleted' if repository.in_deletion else ''}, and on {namespace} on the"
                " server. Nothing was deleted. Name the server's own database."
            )
        return repository

    def _note_unknown[M: Message](self, kind: type[M], key: bytes, value: bytes, partition: bytes = b"") -> M:
        record = messages.decode(kind, value, lambda: show_key(partition, key))
        if messages.has_unknown_fields(record) and len(self.unknown) < 3:
            self.unknown.append(key.decode("utf-8", "backslashreplace"))
        return record

    def _one(self, partition: bytes, key: bytes) -> bytes | None:
        row = next(iter(self._view.scan(partition, key)), None)
        return row.value if row is not None and row.key == key else None


class RecordedCommits:
    """Refs and commits of a store."""

    def __init__(self, records: RepositoryRecords) -> None:
        self.branches = [Ref(branch.name, branch.commit_id) for branch in records.branches()]
        self.tags = records.tags()
        self.commits = records.commits()  # last, so they include the commits of the refs


type ReadCommits = tuple[RecordedCommits, StoreCheck]


class StoreCheck(Struct, frozen=True):
    """The conclusions from the records of a store."""

    location: str  # the store, without credentials
    doubt: str = ""  # why the records are not complete and current; "" if they are proved to be
    refuted: bool = False  # whether the store is proved to be another one than the server's
    partial: bool = False  # whether a newer server may keep data alive in other records
    # (branch, commit) pairs on the server right before and right after the read
    heads: frozenset[tuple[str, str]] = frozenset()


class Before(Struct, frozen=True):
    """The server before a store is read: the heads of its branches, and two answers with its counter."""

    heads: dict[str, str]
    counters: tuple[Usage | None, Usage | None]


def look_before(client: LakeFSClient, repository: str) -> Before:
    """Ask the server before its store is read."""
    with at_once() as ask:
        counters = ask(client.usage), ask(client.usage)
        heads = _heads(client, repository)
    return Before(heads, (counters[0].result(), counters[1].result()))


def read_checked[T](
    client: LakeFSClient,
    repository: str,
    namespace: str,
    read: Callable[[RepositoryRecords], T],
    access: KVAccess | None = None,
    seen: Before | None = None,
) -> tuple[T, StoreCheck]:
    """Read records of a repository, in an order that is safe without snapshots, and check the store. `seen` is the
    result of `look_before`, if it was asked before. Raises ConfigError: no access, or no such store; RefusedError: it
    is not the store of this repository."""
    seen = seen or look_before(client, repository)
    with (access or KVAccess.from_env()).open() as store:
        written = _have_written(client, *seen.counters)
        found_before = _read_count(store, written)
        between = None if written is None else client.usage()
        counts = [_bound(written, found_before, between)]
        with store.view() as view:
            # The first read of the view: a snapshot is of its time.
            counts.append(_not_lower(counts[0], written, view))
            records = RepositoryRecords(repository, namespace, view, store.location)
            found = read(records)
        again = _have_written(client, between)
        found_again = _read_count(store, again)
        with at_once() as ask:
            after = ask(_heads, client, repository)
            counts.append(_bound(again, found_again, None if again is None else client.usage()))
    _check_heads(records, seen.heads, after.result())
    heads = frozenset([*seen.heads.items(), *after.result().items()])
    return found, replace(_judge(records, counts), heads=heads)


class _Count(Struct, frozen=True):
    """The counter of a store, between two answers of the server."""

    least: int
    found: int
    most: int

    @property
    def fits(self) -> bool:
        """Whether it may be the server's counter."""
        return self.least <= self.found <= self.most


def _read_count(store: RowReader, written: Usage | None) -> int | None:
    if written is None:
        return None
    with store.view() as view:
        return read_count(view, written.installation_id)


def _bound(written: Usage | None, found: int | None, after: Usage | None) -> _Count | None:
    """Bound a counter by the server's answers before and after it was read; None without a usable answer."""
    if written is None or found is None or after is None or after.installation_id != written.installation_id:
        return None
    return _Count(written.requests, found, after.requests)


def _not_lower(counted: _Count | None, written: Usage | None, view: RowView) -> _Count | None:
    found = None if counted is None or written is None else read_count(view, written.installation_id)
    return (
        None if counted is None or found is None else _Count(counted.found, found, max(counted.found, found))
    )


def _have_written(client: LakeFSClient, first: Usage | None, other: Usage | None = None) -> Usage | None:
    """Ask until the server's counter is above another answer; None if it has no counter or does not count. `other` was
    asked beside the first one, and either may be the higher one."""
    if first is not None and other is not None:
        first, other = sorted((first, other), key=lambda usage: usage.requests)
    for _ in range(_TRIES):
        if first is None or not first.installation_id:
            return None
        found, other = other or client.usage(), None
        if found is None or found.installation_id != first.installation_id:
            return None
        if found.requests > first.requests:
            return found
    return None


def read_count(view: RowView, installation_id: str) -> int | None:
    """Read the counter of an installation in a store; None for an unreadable counter."""
    prefix = f"usage/monthly/{installation_id}/".encode()
    total = 0
    for entry in view.scan(_USAGE, prefix):
        if not entry.key.startswith(prefix):
            break
        if not entry.value.isdigit():
            return None
        total += int(entry.value)
    return total


def _judge(records: RepositoryRecords, counts: Sequence[_Count | None]) -> StoreCheck:
    known = [count for count in counts if count is not None]
    if other := next((count for count in known if not count.fits), None):
        return StoreCheck(
            records.location,
            f"{records.location} has counted {other.found:,} requests, the server's own store {other.least:,} to"
            f" {other.most:,}: it is a copy, or another installation's",
            refuted=True,
        )
    if records.unknown:
        return StoreCheck(
            records.location,
            f"records such as {', '.join(records.unknown)} have fields that this version does not know",
            partial=True,
        )
    if len(known) < len(counts):
        return StoreCheck(
            records.location,
            "the server does not report the requests counted in its store (usage report), so Dredge cannot prove that"
            f" it writes to {records.location}",
        )
    return StoreCheck(records.location)


def list_branches(client: LakeFSClient, repository: str) -> list[Ref]:
    """List the branches, with hidden branches; an empty list raises RefusedError, because every repository has a
    branch."""
    found = client.branches(repository)
    if not found:
        raise RefusedError(
            f"lakeFS lists no branches of {repository}; every repository has one. Nothing was deleted."
        )
    return found


def _heads(client: LakeFSClient, repository: str) -> dict[str, str]:
    return {branch.id: branch.commit_id for branch in list_branches(client, repository)}


def _check_heads(records: RepositoryRecords, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    for name, commit_id in before.items():
        if after.get(name) == commit_id and records.heads.get(name) != commit_id:
            found = records.heads.get(name)
            says = f"at commit {found[:12]}…" if found else "missing"
            raise RefusedError(
                f"branch {name} is at commit {commit_id[:12]}… on the server, and {says} in {records.location}: that"
                " is another installation's store, or an old copy. Nothing was deleted. Name the server's own"
                " database."
            )
