"""One page of the repository's uncommitted addresses.

Branches are listed in name order, including hidden ones, each with its staged entries (current token and all sealed
tokens, newest wins) if different from the head. Like a real server it leaves out:

    tombstones                                   nothing is live there
    entries of the committed identity            though live on the branch (L6, L45)
    addresses outside the namespace              not this namespace's objects
    type 0 entries with a relative address       though live on the branch (L14)

The recorded copies (profile `design`, see `tracked`) follow after all branches; read earlier, they would miss a rename
made during the listing of branches.

A page ends at a limit of flushed parquet bytes, or after an interval. Its token is the next item: a branch and a path,
or a copy. Each page gets past at least one item, so a run always ends (a real server's need not: defect
`repeated_token`).

Source: lakeFS pkg/catalog/gc_write_uncommitted.go, pkg/catalog/catalog.go (behaviour only).
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from dredge.errors import FormatError
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Branch, Repository
from dredge.xid import descending_time
from lakefs_embedded.catalog.entries import path_bytes, path_text
from lakefs_embedded.catalog.listing import staged_diffs
from lakefs_embedded.catalog.model import Settings
from lakefs_embedded.catalog.tracked import Copies
from lakefs_embedded.committed.store import RangeReader
from lakefs_embedded.errors import BranchNotFoundError, ContinuationTokenError
from lakefs_embedded.refs.branches import Branches
from lakefs_embedded.refs.commits import Commits
from lakefs_embedded.staging.area import StagingAreas

SCHEMA = pa.schema(
    [
        pa.field("physical_address", pa.string(), nullable=False),
        pa.field("creation_date", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Mark:
    """The beginning of a page.

    Args:
        branch: continue with this branch, or with the next one if it was deleted.
        path: within the branch continue at this path, inclusive.
        key: all branches are done; continue at this copy.
    """

    run_id: str
    branch: str = ""
    path: str = ""
    key: str = ""

    def encode(self) -> str:
        """Encode the continuation token."""
        members = {"branch": self.branch, "path": self.path, "run_id": self.run_id, "key": self.key}
        text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
        return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()

    @classmethod
    def decode(cls, token: str) -> Mark:
        """Decode a continuation token."""
        try:
            raw = base64.b64decode(token, validate=True)
            members = json.loads(raw.decode("utf-8", "surrogateescape"))
            return cls(
                str(members["run_id"]),
                str(members["branch"]),
                str(members["path"]),
                str(members.get("key") or ""),
            )
        except (binascii.Error, ValueError, KeyError, TypeError):
            raise ContinuationTokenError from None


class PageFile:
    """The parquet file of one page, in memory; only flushed bytes (each `flush_rows` rows) count as its size."""

    def __init__(self, flush_rows: int) -> None:
        self._flush_rows = flush_rows
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(
            self._sink, SCHEMA, compression="gzip", use_dictionary=["physical_address"], version="1.0"
        )
        self._addresses: list[str] = []
        self._dates: list[int] = []
        self.rows = 0

    @property
    def flushed_bytes(self) -> int:
        """Bytes written so far, without unflushed rows."""
        return self._sink.tell()

    def add(self, address: str, date: int) -> None:
        """Add a row; the date is in Unix seconds."""
        self._addresses.append(address)
        self._dates.append(date)
        self.rows += 1
        if len(self._addresses) >= self._flush_rows:
            self._flush()

    def finish(self) -> bytes:
        """Close the file and return its bytes."""
        self._flush()
        self._writer.close()
        return self._sink.getvalue()

    def _flush(self) -> None:
        if self._addresses:
            self._writer.write_table(pa.table([self._addresses, self._dates], schema=SCHEMA))
            self._addresses, self._dates = [], []


@dataclass(frozen=True, slots=True)
class PageResult:
    """The parquet file of a page, or None without rows, and the beginning of the next page, or None at the end."""

    data: bytes | None
    next: Mark | None


class UncommittedPage:
    """Writes one page."""

    def __init__(
        self,
        branches: Branches,
        commits: Commits,
        areas: StagingAreas,
        ranges: RangeReader,
        copies: Copies,
        repository: Repository,
        clock: Callable[[], datetime],
        settings: Settings,
    ) -> None:
        self._branches = branches
        self._commits = commits
        self._areas = areas
        self._ranges = ranges
        self._copies = copies
        self._repository = repository
        self._clock = clock
        self._settings = settings
        self._began = clock()
        self._file = PageFile(settings.prepare_flush_rows)
        self._moved = False
        self._rows = 0  # decides whether there is a file; a defect resets it
        self._loses_rows = settings.defect("rows_lost_on_branch_delete")
        self._vanished = False  # whether the last branch read had been deleted

    def write(self, mark: Mark) -> PageResult:
        """Write from a mark on until a limit is reached or all rows are written.

        Raises ContinuationTokenError when records of copies may have expired since the run began.
        """
        following = None if mark.key else self._all_branches(mark)
        if self._vanished and self._loses_rows:
            raise BranchNotFoundError
        if following is None:
            following = self._all_copies(mark)
        if self._settings.profile == "design":
            self._refuse_long_run(mark)
        return self._result(following)

    def _all_branches(self, mark: Mark) -> Mark | None:
        last = ""
        for listed in self._branches.scan(self._repository, mark.branch):
            last = listed.name
            start = mark.path if listed.name == mark.branch else ""
            if self._is_full():
                return Mark(mark.run_id, listed.name, start)
            begun = time.monotonic()
            stopped_at = self._branch(listed.name, start)
            self._rest(time.monotonic() - begun)
            if stopped_at is not None:
                return Mark(mark.run_id, listed.name, stopped_at)
        if self._rows and self._settings.defect("empty_last_page"):
            return Mark(mark.run_id, last + "~")  # after every name, so nothing is left
        return None

    def _rest(self, taken: float) -> None:
        left = self._settings.prepare_branch_time.total_seconds() - taken
        if left > 0:
            time.sleep(left)

    def _all_copies(self, mark: Mark) -> Mark | None:
        for copied in self._copies.scan(self._repository, mark.key):
            if self._is_full():
                return Mark(mark.run_id, key=copied.id)
            self._file.add(copied.entry.address, copied.entry.last_modified.seconds)
            self._rows += 1
            self._moved = True
        return None

    def _refuse_long_run(self, mark: Mark) -> None:
        try:
            began = descending_time(mark.run_id)
        except FormatError:
            raise ContinuationTokenError from None
        if self._clock() - began > self._settings.copy_expiry / 2:
            raise ContinuationTokenError(
                f"run {mark.run_id} has taken too long: records of copies made since it began may have "
                "expired. Start a new run without a token: invalid continuation token"
            )

    def _branch(self, name: str, start: str) -> str | None:
        try:
            branch = self._branches.current(self._repository, name).branch
        except BranchNotFoundError:  # deleted since it was listed
            self._vanished = True
            if self._loses_rows:
                self._rows = 0
            return None
        self._vanished = False
        for path, entry in self._uncommitted(branch, start):
            if self._is_full():
                self._rows += self._loses_rows  # a real server counts the row before it looks at the limit
                return path_text(path)
            address = self._address(entry)
            if address is not None:
                self._file.add(address, entry.last_modified.seconds)
                self._rows += 1
            self._moved = True
        self._moved = True
        return None

    def _uncommitted(self, branch: Branch, start: str) -> Iterator[tuple[bytes, messages.Entry]]:
        head = self._commits.get(self._repository, branch.commit_id).metarange_id
        for path, changed in staged_diffs(self._areas, branch.tokens, self._ranges, head, path_bytes(start)):
            if changed.value is not None:
                # The bare message: a page may have millions of rows, and needs two fields of each.
                yield path, messages.decode(messages.Entry, changed.value.data, f"entry of {path!r}")

    def _address(self, entry: messages.Entry) -> str | None:
        if entry.address_type == messages.AddressType.RELATIVE:
            return entry.address
        prefix = self._repository.storage_namespace.rstrip("/") + "/"
        return entry.address.removeprefix(prefix) if entry.address.startswith(prefix) else None

    def _is_full(self) -> bool:
        if not self._moved:
            return False
        return (
            self._file.flushed_bytes > self._settings.prepare_file_bytes_max
            or self._clock() - self._began >= self._settings.prepare_interval
        )

    def _result(self, following: Mark | None) -> PageResult:
        return PageResult(self._file.finish() if self._rows else None, following)
