"""Staging read from lakeFS's key-value store itself: every record of every token of every branch.

The server's answer about uncommitted objects leaves out what branches read all the same: the same bytes
uploaded again over a committed object, entries of the oldest kind, rows that it lost with a branch. The
records have them all. They are read besides asking the server, after its last page and before commits are
read, for the same reason: an entry moves from staging into a commit, never back.

    server's branches
      → repository record
      → branch records  ←──────────────────────────────┐  until no branch names
      → every record of each token, current and sealed ┘  a token that was not read
      → server's branches again

Whatever a record names is live, also where a newer one hides it. An entry that is staged after its token was
read has an object that is young, or one that was named already and stays so, or is found by the re-check,
which reads all of this again.

A wrong store (another installation's, a copy of yesterday) would hide what is staged now. So the record must
be of this namespace, branches and their heads must be the server's, and the answer counts as exact only when
it has every address that the server showed. Where it is not exact, its addresses are live like all others,
and branches are asked about suspects as without records.

Source: lakeFS pkg/graveler/graveler.proto, pkg/graveler/staging/manager.go
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dredge.errors import FormatError, RefusedError
from dredge.gc.mark_uncommitted.kv_access import KVAccess
from dredge.gc.mark_uncommitted.output import StagedFiles
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import Run
from dredge.gc.sets.hashes import NONE, Hashes, contains, unite
from dredge.graveler import messages
from dredge.graveler.addresses import address_readings
from dredge.graveler.refs.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key
from dredge.hashing import hash64
from dredge.kv.rows import RowView, show_key

log = logging.getLogger("dredge")

_BRANCHES = b"branches/"
_SCHEMA = (b"kv-internal-metadata", b"kv/schema/version")
_SCHEMA_VERSION = b"4"
_BATCH_ROWS = 100_000


@dataclass(slots=True)
class Records:
    """What the staging records gave.

    Attributes:
        location: the store, without credentials.
        branches: head by name.
        heads: every branch with each commit that it was seen at.
        tokens: number of staging tokens that were read.
        rows: number of records, without tombstones.
        unseen: number of distinct addresses that the server had not shown.
        missing: number of distinct addresses that the server had shown, and that no record names (any more).
    """

    location: str
    branches: dict[str, str] = field(default_factory=dict)
    heads: set[tuple[str, str]] = field(default_factory=set)
    tokens: int = 0
    rows: int = 0
    unseen: int = 0
    missing: int = 0

    @property
    def exact(self) -> bool:
        """Whether the records had everything that the server showed, so that nothing else can be staged."""
        return self.missing == 0

    def to_json(self) -> dict[str, Any]:
        """For the step's summary."""
        return {
            "location": self.location,
            "tokens": self.tokens,
            "rows": self.rows,
            "unseen": self.unseen,
            "missing": self.missing,
            "exact": self.exact,
        }


def read_records(run: Run, files: StagedFiles, shown: Hashes, access: KVAccess | None = None) -> Records:
    """Read every staging record of the repository.

    Args:
        run: the run.
        files: takes the addresses that the server did not show.
        shown: hashes of what the server showed as uncommitted, sorted and distinct.
        access: None reads the environment.

    Raises:
        ConfigError: the store is not named, or does not exist.
        RefusedError: it is not the store of this repository, or never stands still.
        FormatError: a record cannot be read.
    """
    before = _heads(run)
    log.info("run %s: reading all staging records from the key-value store; usually seconds", run.plan.run_id)
    with (access or KVAccess.from_env()).open() as store, store.view() as view:
        records = Records(store.location)
        reader = _Reader(run, view, records)
        sink = _Sink(files, shown, records)
        reader.read(sink)
    sink.finish()
    _check_heads(records, before, _heads(run))
    log.info("run %s: staging records: %s", run.plan.run_id, records.to_json())
    return records


def _heads(run: Run) -> dict[str, str]:
    return {branch.id: branch.commit_id for branch in run.client.branches(run.plan.repository)}


def _check_heads(records: Records, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Compare heads: a branch that did not move on the server while the store was read has the same head there."""
    for name, commit_id in before.items():
        if after.get(name) == commit_id and records.branches.get(name) != commit_id:
            found = records.branches.get(name)
            says = f"at commit {found[:12]}…" if found else "not there"
            raise RefusedError(
                f"branch {name} is at commit {commit_id[:12]}… on the server, and {says} in {records.location}: that"
                " is another installation's store, or an old copy. Nothing was deleted. Name the server's own"
                " database."
            )


class _Reader:
    """Goes through the records of one repository.

    Args:
        run: names the repository.
        view: on the store.
        records: takes what is found.
    """

    def __init__(self, run: Run, view: RowView, records: Records) -> None:
        self._plan = run.plan
        self._view = view
        self._records = records

    def read(self, sink: _Sink) -> None:
        """Read tokens until every one that a branch names was read."""
        self._check_schema()
        partition = self._repository().partition
        read: set[str] = set()
        for _ in range(self._plan.config.safety.scan_rounds_max):
            branches = list(self._branches(partition))
            new = [token for branch in branches for token in branch.tokens if token not in read]
            if not new and read:
                break
            for token in new:
                self._token(token, sink)
            read.update(new)
            self._records.branches |= {branch.name: branch.commit_id for branch in branches}
            self._records.heads |= {(branch.name, branch.commit_id) for branch in branches}
            if self._view.consistent:
                break
        else:
            raise RefusedError(
                f"branches of {self._plan.repository} changed their staging tokens during each of"
                f" {self._plan.config.safety.scan_rounds_max} looks at {self._records.location}. Nothing was deleted."
                " Run again at a quieter time, or raise scan_rounds_max."
            )
        self._records.tokens = len(read)

    def _check_schema(self) -> None:
        partition, key = _SCHEMA
        found = self._one(partition, key)
        if found is not None and found != _SCHEMA_VERSION:
            raise RefusedError(
                f"{self._records.location} has schema version {found.decode('ascii', 'replace')}; this version reads"
                f" {_SCHEMA_VERSION.decode()}. Nothing was deleted."
            )

    def _repository(self) -> Repository:
        name = self._plan.repository
        value = self._one(REPOSITORIES_PARTITION, repository_key(name))
        if value is None:
            raise RefusedError(
                f"{self._records.location} has no repository {name}: it is another installation's store. Nothing was"
                " deleted."
            )
        repository = Repository.decode(value)
        if repository.in_deletion or canonical_namespace(repository.storage_namespace) != canonical_namespace(
            self._plan.namespace
        ):
            raise RefusedError(
                f"repository {name} is on {repository.storage_namespace} in {self._records.location}"
                f"{' and being deleted' if repository.in_deletion else ''}, and on {self._plan.namespace} on the"
                " server. Nothing was deleted. Name the server's own database."
            )
        return repository

    def _branches(self, partition: bytes) -> Iterator[Branch]:
        for entry in self._view.scan(partition, _BRANCHES):
            if not entry.key.startswith(_BRANCHES):
                return
            branch = Branch.decode(entry.value)
            if branch.name.encode() != entry.key.removeprefix(_BRANCHES):
                raise FormatError(f"{show_key(partition, entry.key)}: the record names another branch.")
            yield branch

    def _token(self, token: str, sink: _Sink) -> None:
        partition = token.encode()
        for row in self._view.scan(partition):
            name = show_key(partition, row.key)
            record = messages.decode(messages.StagedEntryData, row.value, name)
            if not record.identity:
                continue  # a tombstone
            entry = messages.decode(messages.Entry, record.data, name)
            self._records.rows += 1
            for key in address_readings(entry.address, entry.address_type, self._plan.namespace):
                sink.add(key)

    def _one(self, partition: bytes, key: bytes) -> bytes | None:
        row = next(iter(self._view.scan(partition, key)), None)
        return row.value if row is not None and row.key == key else None


class _Sink:
    """Collects addresses, and writes those that the server had not shown, a bounded number at a time."""

    def __init__(self, files: StagedFiles, shown: Hashes, records: Records) -> None:
        self._files = files
        self._shown = shown
        self._records = records
        self._waiting: list[str] = []
        self._seen = np.zeros(len(shown), bool)
        self._unseen = NONE

    def add(self, address: str) -> None:
        self._waiting.append(address)
        if len(self._waiting) >= _BATCH_ROWS:
            self._flush()

    def finish(self) -> None:
        """Write what waits, and count."""
        self._flush()
        self._records.unseen = len(self._unseen)
        self._records.missing = len(self._shown) - int(np.count_nonzero(self._seen))

    def _flush(self) -> None:
        addresses = pa.array(self._waiting, pa.string())
        self._waiting = []
        hashes = hash64(addresses)
        was_shown = contains(self._shown, hashes)
        self._seen[np.searchsorted(self._shown, hashes[was_shown])] = True
        new = ~was_shown
        if not new.any():
            return
        self._unseen = unite([self._unseen, self._files.write(addresses.filter(pa.array(new)))])
