"""How a task reaches lakeFS's key-value store: by variables of its environment, never through plans or arguments.

The records of one repository in lakeFS's key-value store, as a collection reads them.

    graveler                repos/<name>          which partition is the repository's
    <repository partition>  branches/<name>       head, staging token, sealed tokens; hidden ones are among them
                            tags/<name>           commit
                            commits/<id>          parents, date, metarange; dangling ones are among them
                            copies/<xid>          an address that two paths share (only the embedded lakeFS has these)
    <staging token>         <path>                what is staged; a tombstone has no identity

A record with a field that this version does not know was written by a newer server, which may keep something alive in
a way that is not known here. It is read all the same, and noted, so that nobody takes the records for everything.

Source: lakeFS pkg/graveler/graveler.proto, pkg/graveler/model.go

What the records of a key-value store are worth: whether it is the very store that the server writes to, now.

A copy (a backup restored, a replica that fell behind, a staging environment's database) has the right repository and
often the right heads, and still lacks what was staged since. So the server is made to write something that no copy can
have. Asked for its usage report, a server adds the requests it has served to a counter in its store and tells the sum
that is there then. All servers of an installation add to the same counter, and nobody takes anything away:

    server says c0, then c1 > c0   →   the store is opened, and has c   →   server says c2          c1 ≤ c ≤ c2
                                       the records are read
    server says c3, then c4 > c3   →   the store is opened, and has d   →   server says c5          c4 ≤ d ≤ c5

The counter reached c1 after the server had told c0, so a store that has at least c1 has what the server's had at a
time later than that answer, as far as it is one moment or one copy in order. One whose counter has gone another way
is another installation's. It would have to hit the few numbers that the server counts while one record is read, and
once more after all records were: a copy that another installation goes on with has requests of its own, and none of
ours. (The reading may take minutes, in which a busy server counts thousands; so it lies in neither pair of bounds.)

    proved     what follows from the records alone may be used
    doubtful   it cannot be said: the server has no such report, or does not count
    partial    records have fields that this version does not know, so that they may not be all there is
    refuted    the counter is another one: what the records do not have may exist all the same

The counter is read in a view of its own, which is closed before the server is asked: behind a connection pooler that
lakeFS shares, the server may need the very session. The records are read in a later view, whose counter must not be
lower. In PostgreSQL and SQLite a view is one moment, that of its first read, which is the counter's. DynamoDB has no
such view, but every read there is consistent and later than the one before it; who reads must choose a safe order. A
table that is replicated between regions has to be read where the servers are.

Besides, branches that did not move on the server while the store was read must have the same heads there.

Source: lakeFS pkg/stats/usage_counter.go, pkg/api/controller.go (GetUsageReportSummary), behaviour only
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.gc.namespaces import Keys, canonical_namespace
from dredge.kv.row_opening import open_row_reader
from dredge.kv.rows import RowReader, RowView, show_key
from dredge.lakefs import Commit, CommitText, LakeFS, Ref, Usage
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from dredge.storage.parallel import at_once

if TYPE_CHECKING:
    from dredge.kv.dynamodb import AwsKeys
if TYPE_CHECKING:
    from google.protobuf.message import Message

URL = "DREDGE_KV_URL"
ACCESS_KEY = "DREDGE_KV_ACCESS_KEY_ID"
SECRET_KEY = "DREDGE_KV_SECRET_ACCESS_KEY"
SESSION_TOKEN = "DREDGE_KV_SESSION_TOKEN"


@dataclass(frozen=True, slots=True)
class KVAccess:
    """Where lakeFS's key-value store is, and the credentials for it.

    Attributes:
        url: `postgresql://…`, `dynamodb://…` or `sqlite:///…`; it may contain a password.
        keys: for DynamoDB, instead of those that the environment has.
    """

    url: str = field(repr=False)
    keys: AwsKeys | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> KVAccess:
        """Read the variables that `to_env` gives.

        Args:
            environ: defaults to this process's.

        Raises:
            ConfigError: they are not set.
        """
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
        """Give the variables for a child process, secrets included."""
        found = {URL: self.url}
        if self.keys is not None:
            found |= {ACCESS_KEY: self.keys.access_key_id, SECRET_KEY: self.keys.secret_access_key}
            if self.keys.session_token:
                found[SESSION_TOKEN] = self.keys.session_token
        return found

    def open(self) -> closing[RowReader]:
        """Open the store to look at it; nothing can be changed through it."""
        return closing(open_row_reader(self.url, keys=self.keys))


_BRANCHES, _TAGS, _COMMITS, _COPIES = b"branches/", b"tags/", b"commits/", b"copies/"
_SCHEMA = (b"kv-internal-metadata", b"kv/schema/version")
_SCHEMA_VERSION = b"4"


class Target(Protocol):
    """Names a repository; a plan of any run does."""

    @property
    def repository(self) -> str:
        """Name in lakeFS."""

    @property
    def namespace(self) -> str:
        """URI of its storage namespace, as the server says."""


class RepositoryRecords:
    """Reads the records of a repository; each call reads them anew.

    Args:
        plan: names the repository.
        view: on the store.
        location: the store, without credentials.

    Attributes:
        location: the store, without credentials.
        heads: commit by branch, as each was read last.
        unknown: names of records with fields that this version does not know; a few of them.
        keys: that are looked for in entries; the repository's own, unless they are set.

    Raises:
        RefusedError: it is not the store of this repository.
    """

    def __init__(self, plan: Target, view: RowView, location: str) -> None:
        self.location = location
        self.heads: dict[str, str] = {}
        self.unknown: list[str] = []
        self.keys = Keys(namespace=plan.namespace)
        self._plan = plan
        self._view = view
        self._check_schema()
        self._partition = self._repository().partition

    @property
    def consistent(self) -> bool:
        """Whether all is read as of one moment."""
        return self._view.consistent

    def branches(self) -> list[Branch]:
        """All branches, hidden ones too, in name order."""
        found = []
        for name, value in self.rows(_BRANCHES):
            self._note_unknown(messages.BranchData, _BRANCHES + name, value)
            branch = Branch.decode(value)
            if branch.name.encode() != name:
                raise FormatError(
                    f"{show_key(self._partition, _BRANCHES + name)}: the record names another branch."
                )
            found.append(branch)
        self.heads |= {branch.name: branch.commit_id for branch in found}
        return found

    def tags(self) -> list[Ref]:
        """All tags, in name order."""
        found = []
        for name, value in self.rows(_TAGS):
            record = self._note_unknown(messages.TagData, _TAGS + name, value)
            found.append(Ref(record.id, record.commit_id))
        return found

    def commits(self) -> dict[str, Commit]:
        """Every commit by id, whether or not a ref leads to it."""
        found = {}
        for name, value in self.rows(_COMMITS):
            record = self._note_unknown(messages.CommitData, _COMMITS + name, value)
            if record.id.encode() != name:
                raise FormatError(
                    f"{show_key(self._partition, _COMMITS + name)}: the record names another commit."
                )
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
        """The keys that each entry of a staging token may mean; tombstones are passed over."""
        partition = token.encode()
        for row in self._view.scan(partition):
            record = self._note_unknown(messages.StagedEntryData, row.key, row.value, partition)
            if record.identity:
                yield self._keys(self._note_unknown(messages.Entry, row.key, record.data, partition))

    def copies(self) -> Iterator[tuple[str, ...]]:
        """The keys of recorded copies that share their bytes with something staged.

        A rename stages the new path before it deletes the old one, so these are read after everything staged.
        """
        for name, value in self.rows(_COPIES):
            yield self._keys(self._note_unknown(messages.Entry, _COPIES + name, value))

    def _keys(self, entry: messages.Entry) -> tuple[str, ...]:
        if not self.keys.own and int(entry.address_type) == AddressType.RELATIVE:
            return ()
        return address_readings(entry.address, entry.address_type, self.keys.namespace)

    def _check_schema(self) -> None:
        found = self._one(*_SCHEMA)
        if found is not None and found != _SCHEMA_VERSION:
            raise RefusedError(
                f"{self.location} has schema version {found.decode('ascii', 'replace')}; this version reads"
                f" {_SCHEMA_VERSION.decode()}. Nothing was deleted."
            )

    def _repository(self) -> Repository:
        name = self._plan.repository
        value = self._one(REPOSITORIES_PARTITION, repository_key(name))
        if value is None:
            raise RefusedError(
                f"{self.location} has no repository {name}: it is another installation's store. Nothing was deleted."
            )
        self._note_unknown(messages.RepositoryData, repository_key(name), value)
        repository = Repository.decode(value)
        if repository.in_deletion or canonical_namespace(repository.storage_namespace) != canonical_namespace(
            self._plan.namespace
        ):
            raise RefusedError(
                f"repository {name} is on {repository.storage_namespace} in {self.location}"
                f"{' and being deleted' if repository.in_deletion else ''}, and on {self._plan.namespace} on the"
                " server. Nothing was deleted. Name the server's own database."
            )
        return repository

    def rows(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rest of each key of the repository below a prefix, and its value."""
        for entry in self._view.scan(self._partition, prefix):
            if not entry.key.startswith(prefix):
                return
            yield entry.key.removeprefix(prefix), entry.value

    def _note_unknown[M: Message](self, kind: type[M], key: bytes, value: bytes, partition: bytes = b"") -> M:
        record = messages.decode(kind, value, lambda: show_key(partition, key))
        if messages.has_unknown_fields(record) and len(self.unknown) < 3:
            self.unknown.append(key.decode("utf-8", "backslashreplace"))
        return record

    def _one(self, partition: bytes, key: bytes) -> bytes | None:
        row = next(iter(self._view.scan(partition, key)), None)
        return row.value if row is not None and row.key == key else None


_TRIES = 5
_PARTITION = b"usage"


@dataclass(frozen=True, slots=True)
class Standing:
    """What may be concluded from the records of a store.

    Attributes:
        location: the store, without credentials.
        doubt: why not everything; "" when they are proved to be the server's own, as of now.
        refuted: whether they are proved not to be.
        partial: whether a newer server may keep something alive that they do not tell.
        heads: every branch with each commit that the server showed right before and right after they were read.
    """

    location: str
    doubt: str = ""
    refuted: bool = False
    partial: bool = False
    heads: frozenset[tuple[str, str]] = frozenset()


class Asking(Protocol):
    """Who looks: knows the server, and which repository it is about. A run does."""

    @property
    def client(self) -> LakeFS:
        """The lakeFS server."""

    @property
    def plan(self) -> Target:
        """Names the repository."""


def look[T](
    run: Asking, read: Callable[[RepositoryRecords], T], access: KVAccess | None = None
) -> tuple[T, Standing]:
    """Read records of the run's repository, and say what they are worth.

    Args:
        run: the run.
        read: what to read, in an order that is safe also where the store gives no single moment.
        access: None reads the environment.

    Raises:
        ConfigError: the store is not named, or does not exist.
        RefusedError: it is not the store of this repository.
        FormatError: a record cannot be read.
    """
    with at_once() as ask:
        first = ask(run.client.usage)
        before = _heads(run)
    with (access or KVAccess.from_env()).open() as store:
        written = _have_written(run.client, first.result())
        counts = [_count(run.client, written, _read_count(store, written))]
        with store.view() as view:
            # First of all: where a view is one moment, it is that of the first read.
            counts.append(_not_lower(counts[0], written, view))
            records = RepositoryRecords(run.plan, view, store.location)
            found = read(records)
        again = have_written(run.client)
        found_again = _read_count(store, again)
        with at_once() as ask:
            after = ask(_heads, run)
            counts.append(_count(run.client, again, found_again))
    _check_heads(records, before, after.result())
    heads = frozenset([*before.items(), *after.result().items()])
    return found, replace(_judge(records, counts), heads=heads)


@dataclass(frozen=True, slots=True)
class _Count:
    """The counter of a store, between two answers of the server."""

    least: int
    found: int
    most: int

    @property
    def fits(self) -> bool:
        """Whether it may be the server's."""
        return self.least <= self.found <= self.most


def _read_count(store: RowReader, written: Usage | None) -> int | None:
    if written is None:
        return None
    with store.view() as view:
        return count_of(view, written.installation_id)


def _count(client: LakeFS, written: Usage | None, found: int | None) -> _Count | None:
    """Ask the server what its store has by now, beside what was just found; None when it cannot be said."""
    if written is None:
        return None
    after = client.usage()
    if found is None or after is None or after.installation_id != written.installation_id:
        return None
    return _Count(written.requests, found, after.requests)


def _not_lower(counted: _Count | None, written: Usage | None, view: RowView) -> _Count | None:
    """Count in the view of the records, which may have any later count."""
    found = None if counted is None or written is None else count_of(view, written.installation_id)
    return (
        None if counted is None or found is None else _Count(counted.found, found, max(counted.found, found))
    )


def have_written(client: LakeFS) -> Usage | None:
    """Have the server write to its store, so that its counter grows after this call began.

    Returns:
        What the counter has reached; None when the server does not tell, or when it does not grow.
    """
    return _have_written(client, client.usage())


def _have_written(client: LakeFS, first: Usage | None) -> Usage | None:
    for _ in range(_TRIES):
        if first is None or not first.installation_id:
            return None
        found = client.usage()
        if found is None or found.installation_id != first.installation_id:
            return None
        if found.requests > first.requests:
            return found
    return None


def count_of(view: RowView, installation_id: str) -> int | None:
    """The counter of an installation in a store; None when it cannot be read."""
    prefix = f"usage/monthly/{installation_id}/".encode()
    total = 0
    for entry in view.scan(_PARTITION, prefix):
        if not entry.key.startswith(prefix):
            break
        if not entry.value.isdigit():
            return None
        total += int(entry.value)
    return total


def _judge(records: RepositoryRecords, counts: Sequence[_Count | None]) -> Standing:
    told = [count for count in counts if count is not None]
    if other := next((count for count in told if not count.fits), None):
        return Standing(
            records.location,
            f"{records.location} counts {other.found:,} requests where the server's own store had"
            f" {other.least:,} to {other.most:,}: it is a copy, or another installation's",
            refuted=True,
        )
    if records.unknown:
        return Standing(
            records.location,
            f"records such as {', '.join(records.unknown)} have fields that this version does not know",
            partial=True,
        )
    if len(told) < len(counts):
        return Standing(
            records.location,
            "the server does not tell how many requests its store counts (usage report), so nothing shows that the"
            f" server writes to {records.location}",
        )
    return Standing(records.location)


def _heads(run: Asking) -> dict[str, str]:
    found = {branch.id: branch.commit_id for branch in run.client.branches(run.plan.repository)}
    if not found:
        raise RefusedError(
            f"lakeFS lists no branches of {run.plan.repository}; every repository has one. Nothing was deleted."
        )
    return found


def _check_heads(records: RepositoryRecords, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Compare heads: a branch that did not move on the server while the store was read has the same head there."""
    for name, commit_id in before.items():
        if after.get(name) == commit_id and records.heads.get(name) != commit_id:
            found = records.heads.get(name)
            says = f"at commit {found[:12]}…" if found else "not there"
            raise RefusedError(
                f"branch {name} is at commit {commit_id[:12]}… on the server, and {says} in {records.location}: that"
                " is another installation's store, or an old copy. Nothing was deleted. Name the server's own"
                " database."
            )
