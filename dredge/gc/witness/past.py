"""What earlier marks left, and what people decided about it since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.config import KEEP_UNNAMED_DAYS
from dredge.gc.witness.consents import read_consents
from dredge.gc.witness.record import (
    COMMITS,
    POINTER,
    MarkRecord,
    Pause,
    Stored,
    is_about,
    read_commits,
    read_record,
    read_tables,
)
from dredge.storage import ObjectReader
from dredge.storage.parallel import at_once

INACTIVE_ASKED = 4
"""One would do, but clients may choose the date of a commit."""
FORGET_LOST, RESTORE_LOST = "forget-lost", "restore-lost"
"""Kinds of statements. `what` of the first has `commits` and `metaranges`, ids that were given up; of the second
`commits`: by the id of a lost commit the id of the one that has its content now."""


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier marks left.

    Attributes:
        etag: of the pointer to the record; None if there is none.
        record: of the last complete mark; None if there is none that counts.
        commits: rows of its commits (`COMMITS`).
        kinds: kinds of files that were opened, by name.
        forgotten_at: when a person last gave up what was lost; None if nobody did.
        forgotten: metaranges that were given up, each with the time.
        given_up: commits that were given up, each with the time.
        restored: by the id of a lost commit the id of the one that has its content now.
    """

    etag: str | None = None
    record: MarkRecord | None = None
    commits: pa.Table = field(default_factory=COMMITS.empty_table)
    kinds: Mapping[str, str] = field(default_factory=dict)
    forgotten_at: datetime | None = None
    forgotten: Mapping[str, datetime] = field(default_factory=dict)
    given_up: Mapping[str, datetime] = field(default_factory=dict)
    restored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, state: ObjectReader, namespace: str) -> Past:
        """Read the record of the last complete mark of a namespace, and the statements of people.

        Args:
            state: on the folder of lease and index.
            namespace: URI of the storage namespace.

        Raises:
            RefusedError: a newer version of Dredge wrote the record.
            FormatError: the record or a statement is damaged.
        """
        forgotten_at, forgotten, given_up = None, dict[str, datetime](), dict[str, datetime]()
        restored = dict[str, str]()
        with at_once() as ask:
            record = ask(read_record, state)
            consents = read_consents(state, FORGET_LOST, RESTORE_LOST)
        for consent in consents:
            if consent.kind == FORGET_LOST:
                forgotten_at = consent.at
                forgotten |= dict.fromkeys(consent.what["metaranges"], consent.at)
                given_up |= dict.fromkeys(consent.what["commits"], consent.at)
            else:
                restored |= consent.what["commits"]
        stored, commits, kinds = _read_record(state, namespace, forgotten_at, record)
        return cls(stored.etag, stored.record, commits, kinds, forgotten_at, forgotten, given_up, restored)

    @property
    def compares(self) -> bool:
        """Whether the life of the repository must still be the record's: nobody has given up what was lost since."""
        return self.record is not None and (
            self.forgotten_at is None or self.record.left_at > self.forgotten_at
        )

    @property
    def active(self) -> list[str]:
        """Ids of the commits that the last complete mark called active, but for those that were given up since."""
        if self.record is None:
            return []
        found: list[str] = self.commits.filter(self.commits["active"])["commit_id"].to_pylist()
        left_at = self.record.left_at
        return [item for item in found if item not in self.given_up or self.given_up[item] < left_at]

    @property
    def newest_inactive(self) -> list[str]:
        """Ids of the newest commits that the last complete mark saw and did not call active; none if a person gave up
        what was lost since.

        A database from before such a commit lacks all later ones, too. Otherwise no mark asks for a commit that
        expired, got a branch again, and was lost with the database.
        """
        if not self.compares:
            return []
        given_up = pc.is_in(self.commits["commit_id"], pa.array(list(self.given_up), pa.string()))
        rows = self.commits.filter(pc.invert(pc.or_(self.commits["active"], given_up)))
        rows = rows.filter(pc.is_valid(rows["created_at"]))
        newest = rows.sort_by([("created_at", "descending"), ("commit_id", "ascending")]).slice(
            0, INACTIVE_ASKED
        )
        found: list[str] = newest["commit_id"].to_pylist()
        return found

    @property
    def active_metaranges(self) -> set[str]:
        """Metaranges of the commits in `active`."""
        rows = self.commits.filter(pc.is_in(self.commits["commit_id"], pa.array(self.active, pa.string())))
        return set(filter(None, rows["metarange_id"].to_pylist()))

    @property
    def metaranges(self) -> set[str]:
        """Metaranges of all its commits."""
        return set(filter(None, self.commits["metarange_id"].to_pylist()))

    def since(self, now: datetime, keep_unnamed: timedelta) -> datetime:
        """Metaranges that no known commit names count if they were written then or later.

        Args:
            now: the store's time.
            keep_unnamed: how long they count at least.
        """
        if self.record is None:
            return now - keep_unnamed
        since, pause = min(now - keep_unnamed, self.record.marked_at), self.record.pause
        return since if pause is None or now - pause.ended >= keep_unnamed else min(since, pause.began)

    def pause(self, now: datetime, keep_unnamed: timedelta) -> Pause | None:
        """The last time without a mark that was longer than metaranges are kept: what was written then counts from the
        mark that ended it for as long.

        Args:
            now: the store's time.
            keep_unnamed: how long they count at least.
        """
        if self.record is None:
            return None
        longest = max(keep_unnamed, timedelta(days=KEEP_UNNAMED_DAYS))  # another run may keep them longer
        pause, last = self.record.pause, self.record.marked_at
        if pause is not None and now - pause.ended < longest:
            return pause
        return Pause(began=last, ended=now) if now - last > keep_unnamed else None

    def rows(self, commits: Iterable[str]) -> list[dict[str, Any]]:
        """Rows of some commits, in the order of their ids."""
        wanted = set(commits)
        found = [row for row in self.commits.to_pylist() if row["commit_id"] in wanted]
        return sorted(found, key=lambda row: str(row["commit_id"]))


def _read_record(
    state: ObjectReader, namespace: str, forgotten_at: datetime | None, reading: Future[Stored]
) -> tuple[Stored, pa.Table, Mapping[str, str]]:
    stored = Stored()
    try:
        stored = reading.result()
        record = stored.record
        if record is not None and is_about(record, namespace):
            with at_once() as ask:
                tables = ask(read_tables, state, record)
                commits = read_commits(state, record)
            return stored, commits, tables.result()
    except FormatError:
        info = state.stat(POINTER)
        if forgotten_at is None or forgotten_at < info.last_modified:
            raise
        return Stored(info.etag), COMMITS.empty_table(), {}
    return Stored(stored.etag), COMMITS.empty_table(), {}
