"""Staging read from lakeFS's key-value store itself: every record of every token of every branch.

The server's answer about uncommitted objects leaves out what branches read all the same: the same bytes uploaded again
over a committed object, entries of the oldest kind, rows that it lost with a branch. The records have them all, and
whatever the server lists is one of them. They are read after the listing and before commits are, for the same reason:
an entry moves from staging into a commit, never back.

    repository record
      → branch records  ←──────────────────────────────┐  until no branch names
      → every record of each token, current and sealed ┘  a token that was not read
      → recorded copies

Where the store gives a view of one moment (PostgreSQL, SQLite), all of this is read as of that moment, and one round
is enough: what is staged then is in one of the tokens that branches name then.

Where it does not (DynamoDB; every read is consistent by itself and later than the one before), take the moment at which
the first list of branches was complete, and an entry that is staged then:

    in a token that the list names             it is read, or was taken out before: by a commit, which wrote a range
                                               with it since the cutoff (and those ranges count), or dropped
    in a token that was made during the list   the next list names it, or the same was done to it before
    sealed meanwhile                           tokens are never renamed: a sealed one is read by its name
    moved to another branch (merge, copy)      merged: a commit wrote it; copied: its bytes are a new object, or the
                                               copy is recorded before it is staged, and records are read last
    of a branch that is deleted                dead, unless something else names it: one of the cases above

An entry that is staged after that moment has an object that is young, or one that a head had (heads that were seen
count, with what rules keep behind them), or is found by the re-check, which reads all of this again.

Whatever a record names is live, also where a newer one hides it. What the records are worth says `kv_standing`: only
where they are proved to be the server's own, as of now, the server need not be asked. Elsewhere they are read besides
its answer, after its last page, and count as exact only when they have every address that the server showed; where
they are not exact, their addresses are live like all others, and branches are asked about suspects as without records.

Source: lakeFS pkg/graveler/graveler.proto, pkg/graveler/staging/manager.go
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted.kv_access import KVAccess
from dredge.gc.mark_uncommitted.kv_repository import RepositoryRecords
from dredge.gc.mark_uncommitted.kv_standing import Standing, look
from dredge.gc.mark_uncommitted.output import StagedFiles
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.sets.hashes import NONE, Hashes, contains, unite

log = logging.getLogger("dredge")

_BATCH_ROWS = 100_000


@dataclass(slots=True)
class Records:
    """What the staging records gave.

    Attributes:
        standing: what they are worth.
        branches: head by name.
        heads: every branch with each commit that it was seen at.
        tokens: number of staging tokens that were read.
        rows: number of records, without tombstones.
        unseen: number of distinct addresses that the server had not shown.
        missing: number of distinct addresses that the server had shown, and that no record names (any more).
    """

    standing: Standing = field(default_factory=lambda: Standing(""))
    branches: dict[str, str] = field(default_factory=dict)
    heads: set[tuple[str, str]] = field(default_factory=set)
    tokens: int = 0
    rows: int = 0
    unseen: int = 0
    missing: int = 0

    @property
    def exact(self) -> bool:
        """Whether the records had everything that the server showed, and tell of everything that can be staged."""
        return self.missing == 0 and not self.standing.refuted and not self.standing.partial

    def figures(self) -> dict[str, Any]:
        """Figures for the step's summary."""
        return {
            "location": self.standing.location,
            "doubt": self.standing.doubt,
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
        shown: hashes of what the server showed as uncommitted, sorted and distinct; none where it was not asked.
        access: None reads the environment.

    Raises:
        ConfigError: the store is not named, or does not exist.
        RefusedError: it is not the store of this repository, or never stands still.
        FormatError: a record cannot be read.
    """
    log.info("run %s: reading all staging records from the key-value store; usually seconds", run.plan.run_id)
    sink = _Sink(files, shown)
    records, standing = look(run, lambda found: _read(run, found, sink), access)
    sink.finish()
    records.standing = standing
    records.unseen, records.missing = sink.unseen, sink.missing
    log.info("run %s: staging records: %s", run.plan.run_id, records.figures())
    return records


def _read(run: Run, found: RepositoryRecords, sink: _Sink) -> Records:
    """Read tokens until every one that a branch names was read, then recorded copies."""
    records = Records()
    found.keys = run.keys
    read: set[str] = set()
    rounds_max = run.plan.config.safety.scan_rounds_max
    for _ in range(rounds_max):
        branches = found.branches()
        records.heads |= {(branch.name, branch.commit_id) for branch in branches}
        new = [token for branch in branches for token in branch.tokens if token not in read]
        if not new and read:
            break
        for token in new:
            records.rows += sink.take(found.staged(token))
        read.update(new)
        if found.consistent:
            break
    else:
        raise RefusedError(
            f"branches of {run.plan.repository} changed their staging tokens during each of {rounds_max} looks at"
            f" {found.location}. Nothing was deleted. Run again at a quieter time, or raise scan_rounds_max."
        )
    records.rows += sink.take(found.copies())
    records.branches, records.tokens = found.heads, len(read)
    return records


class _Sink:
    """Collects addresses, and writes those that the server had not shown, a bounded number at a time.

    Attributes:
        unseen: number of distinct addresses that the server had not shown.
        missing: number of distinct addresses that it had shown, and that were not among these.
    """

    def __init__(self, files: StagedFiles, shown: Hashes) -> None:
        self.unseen = self.missing = 0
        self._files = files
        self._shown = shown
        self._waiting: list[str] = []
        self._seen = np.zeros(len(shown), bool)
        self._unseen = NONE

    def take(self, entries: Iterable[tuple[str, ...]]) -> int:
        """Add the keys that entries may mean; gives the number of entries."""
        count = 0
        for keys in entries:
            count += 1
            self._waiting.extend(keys)
            if len(self._waiting) >= _BATCH_ROWS:
                self._flush()
        return count

    def finish(self) -> None:
        """Write what waits, and count."""
        self._flush()
        self.unseen = len(self._unseen)
        self.missing = len(self._shown) - int(np.count_nonzero(self._seen))

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
