"""What the cleaner remembers between its runs: a folder on any object store.

store.json               which store this is about
lease.json               who works on it, under which number
pending/…                what is unused, since when (`waiting`)
open.json                the run that is removing, until it has verified
removed.json             what was removed in the last 90 days, by which runs
runs/<run id>/plan.json · undo/00001.jsonl … · report.json · report.html

Every try has a number, that of its lease. A worker that was given up may go on later: its lease has gone to
another number by then, and each write of a file that tries share looks at the number first and replaces only
what this try has read. `removed.json` is the exception. Whoever removed something adds it, overtaken or not.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import (
    ConflictError,
    DredgeError,
    FormatError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from dredge.kv.rows import RowReader
from dredge.runs.cleanup import ListedFiles, OwnFilesDeleter
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.payload import from_file, from_sealed, to_json, to_sealed
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.runs.pending.store import is_part, superseded_parts
from dredge.runs.versions import KEEP_DAYS_MIN
from dredge.storage import ObjectWriter, StorageOptions, store_clock
from dredge.trash.noted import Noted
from dredge.trash.plan import TrashPlan
from dredge.trash.report import render
from dredge.trash.undo import UndoLog, flush_local

log = logging.getLogger("dredge")

_LEASE = timedelta(minutes=10)
REMEMBERED = timedelta(days=90)
STORE = "store.json"
_OPEN, _REMOVED, _NOTED = "open.json", "removed.json", "noted.json"
_MERGES_MAX = 10


@dataclass(frozen=True, slots=True)
class Right:
    """One try's right to work on a state folder, and on the store that it is about.

    Args:
        lease: of the folder.
        grant: with the number of the try.
        clock: the folder's own time, by which leases expire.
    """

    lease: Lease
    grant: LeaseGrant
    clock: Callable[[], datetime]

    def check(self) -> None:
        """Look whether this is still the newest try, and its lease has not expired.

        Raises:
            LeaseHeldError: it is not; nothing more may be removed.
        """
        self.lease.check(self.grant, self.clock())


class TrashState:
    """The state folder of one key-value store.

    Args:
        writer: on the folder.
        right: of the try that works on it; None may read, and write what is its own.
        options: how the folder is reached; None reads the environment.
    """

    def __init__(
        self, writer: ObjectWriter, right: Right | None = None, options: StorageOptions | None = None
    ) -> None:
        self.writer = writer
        self._right = right
        self._options = options
        self._tags: dict[str, str | None] = {}

    @contextmanager
    def held(self, holder: str) -> Iterator[TrashState]:
        """Work alone.

        Args:
            holder: who. Every try of a task uses the same name: a later one fences the earlier one off, and does
                not have to wait until its lease expires.

        Yields:
            The folder as this try may write to it.

        Raises:
            LeaseHeldError: somebody else does.
        """
        lease = Lease(self.writer, _LEASE, self.now)
        grant = lease.acquire(holder)
        with lease.given_back(grant), lease.kept(grant):
            yield TrashState(self.writer, Right(lease, grant, self.now), self._options)

    @property
    def attempt(self) -> int:
        """Number of the try; larger than that of every earlier one. 0 where no try works."""
        return self._right.grant.fencing if self._right else 0

    def now(self) -> datetime:
        """The folder's own time."""
        return store_clock(self.writer, "")

    def check_right(self) -> None:
        """Look whether this try may go on; ask right before removing anything.

        Raises:
            LeaseHeldError: a later try, or somebody else, has taken over, or the lease expired.
        """
        if self._right is None:
            raise LeaseHeldError(f"{self.writer.uri} is not held by this run. Nothing was touched.")
        self._right.check()

    def claim(self, store: RowReader) -> str:
        """Check that the folder is about this store; the first use of a folder makes it so.

        What was unused in one store says nothing about a copy of it, which may be older. The store's own id changes
        when its database is put back: then the times of tokens that were named begin anew, as all that waits does.

        Returns:
            What changed, for the report; "" where nothing did.

        Raises:
            RefusedError: it is about another one.
        """
        identity, own = _identity(store), store.own_id()
        known = self._read(STORE)
        if known is None:
            self._replace(STORE, identity | {"own_id": own})
        elif not _is_about(known, identity):
            raise RefusedError(
                f"{self.writer.uri} is about {known.get('location')}, not about {store.location}"
                " (or that store was set up anew since). Nothing was judged. Use a folder of its own for each"
                " store."
            )
        elif known.get("own_id", own) != own:
            self.save_noted(self.noted().begun_anew())
            self._replace(STORE, identity | {"own_id": own})
            note = (
                f"The database of {store.location} is another one than at the last look (PostgreSQL: system"
                " identifier, timeline or table; DynamoDB: TableId), as after a restore or a failover: everything"
                " waits anew."
            )
            log.warning("trash: %s", note)
            return note
        return ""

    def belongs(self, store: RowReader) -> tuple[bool, bool]:
        """Whether the folder is about this store, or about none yet; and whether the database is the one of the last
        look. Changes nothing."""
        known = self._read(STORE)
        if known is None:
            return True, True
        own = store.own_id()
        return _is_about(known, _identity(store)), bool(known.get("own_id", own) == own)

    def noted(self) -> Noted:
        """What earlier looks saw named; nothing at the first one."""
        known = self._read(_NOTED)
        return Noted() if known is None else from_file(Noted, known)

    def save_noted(self, noted: Noted) -> None:
        """Remember what this look saw named.

        Raises:
            LeaseHeldError: this try was overtaken; what a later look noted stays.
        """
        self._replace(_NOTED, to_json(noted) | {"try": self.attempt})

    def open_run(self) -> str | None:
        """The run that was removing when it ended without verifying."""
        known = self._read(_OPEN)
        return known.get("run_id") if known else None

    def set_open_run(self, run_id: str | None) -> None:
        """Say which run is removing.

        Raises:
            LeaseHeldError: this try was overtaken.
        """
        self._replace(_OPEN, {"run_id": run_id, "try": self.attempt})

    def removed(self) -> dict[bytes, str]:
        """Partitions that were removed lately, with the last run that did it."""
        return {name: runs[-1] for name, runs in self.removed_by().items()}

    def removed_by(self) -> dict[bytes, list[str]]:
        """As `removed`, with every run that removed rows of a partition: one that was killed leaves some."""
        known = self._read(_REMOVED) or {}
        return {base64.b64decode(name): _runs_of(run) for name, run in known.items()}

    def note_removed(
        self, partitions: Iterable[bytes], run_id: str, now: datetime, *, forget: bool = True
    ) -> None:
        """Remember what a run removed, and forget what is older than `REMEMBERED`.

        Args:
            partitions: that it removed.
            run_id: of the run.
            now: when.
            forget: whether anything is forgotten: only whoever has looked whether a record names it again may do so.
        """
        names = [base64.b64encode(name).decode() for name in partitions]

        def merged(known: dict[str, Any]) -> dict[str, Any]:
            fresh = {
                name: run
                for name, run in known.items()
                if not forget or now - datetime.fromisoformat(run["at"]) < REMEMBERED
            }
            runs = {name: [one for one in _runs_of(fresh.get(name)) if one != run_id] for name in names}
            return fresh | {name: _entry(now.isoformat(), [*runs[name], run_id]) for name in names}

        self._merge_removed(merged)

    def forget_removed(self, partitions: Iterable[bytes], run_id: str | None = None) -> None:
        """Forget partitions that were put back.

        Args:
            partitions: these.
            run_id: only what this run removed of them; None is all.
        """
        back = {base64.b64encode(name).decode() for name in partitions}

        def merged(known: dict[str, Any]) -> dict[str, Any]:
            kept = {}
            for name, run in known.items():
                runs = [one for one in _runs_of(run) if name not in back or run_id not in (None, one)]
                if runs:
                    kept[name] = _entry(run["at"], runs)
            return kept

        self._merge_removed(merged)

    def undo(self, run_id: str) -> UndoLog:
        """The undo files of a run."""
        return UndoLog(self.writer, f"runs/{run_id}/undo")

    def save_plan(self, plan: TrashPlan) -> None:
        """Keep a plan for approval; the one plan of a run."""
        key = f"runs/{plan.run_id}/plan.json"
        try:
            self.writer.put_if_absent(key, _encode(to_sealed(plan)))
        except ConflictError:
            raise LeaseHeldError(
                f"{self.writer.uri}/{key}: this run has a plan already, so another process works under its id."
                " Nothing was removed. Run again."
            ) from None
        flush_local(self.writer.uri, key)

    def plan(self, run_id: str) -> TrashPlan:
        """Read a plan.

        Raises:
            NotFoundError: the run has none.
            FormatError: it was changed.
        """
        known = self._read(f"runs/{run_id}/plan.json")
        if known is None:
            raise NotFoundError(f"{self.writer.uri}: run {run_id} has no plan")
        return from_sealed(TrashPlan, known)

    def save_report(self, run_id: str, report: dict[str, Any]) -> None:
        """Keep what a run found and did, for programs and for people, and who did it."""
        if self._right is not None:
            report = {**report, "holder": self._right.grant.holder}
        self.writer.put(f"runs/{run_id}/report.json", _encode(report))
        self.writer.put(f"runs/{run_id}/report.html", render(report).encode())

    def remove_old_lists(self) -> None:
        """Remove parts of earlier pending lists, a week later. Whatever goes wrong is a warning: no run is worse for
        files that stay."""
        try:
            week_ago = self.now() - timedelta(days=KEEP_DAYS_MIN)
            old = list(superseded_parts(self.writer, ListedFiles.of(self.writer, f"{PENDING}/", week_ago)))
            self.check_right()
            if old:
                OwnFilesDeleter(self.writer.uri, is_part, self._options).delete(old)
        except DredgeError as error:
            log.warning("trash: old pending lists were not removed; a later run does it: %s", error)

    def runs(self) -> list[str]:
        """Every run, newest first."""
        return [name.split("/")[-2] for name in self.writer.list_level("runs/").folders]

    def _read(self, key: str) -> dict[str, Any] | None:
        # The tag is read first: when the object changes in between, the conditional put on the older tag fails.
        try:
            self._tags[key] = self.writer.stat(key).etag or ""
            data = self.writer.get(key)
        except NotFoundError:
            self._tags[key] = None
            return None
        try:
            value = json.loads(data)
            if isinstance(value, dict):
                return value
        except ValueError:
            pass
        raise FormatError(
            f"{self.writer.uri}/{key} cannot be read. Nothing was judged. Start with an empty folder."
        )

    def _replace(self, key: str, value: dict[str, Any]) -> None:
        """Write a file that tries share, if it is what this try read, and this try is the newest."""
        if key not in self._tags:
            self._read(key)
        self.check_right()
        try:
            self._put(key, value)
        except ConflictError:
            raise LeaseHeldError(
                f"{self.writer.uri}/{key} was changed by another run while this one (number {self.attempt}) was"
                " at work. What that run wrote was left alone, and nothing more was removed. Run again when it"
                " has ended."
            ) from None

    def _merge_removed(self, merge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        for _ in range(_MERGES_MAX):
            known = self._read(_REMOVED) or {}
            try:
                return self._put(_REMOVED, merge(known))
            except ConflictError:
                continue
        raise UnavailableError(
            f"{self.writer.uri}/{_REMOVED} changes all the time, so what was removed could not be added to it."
            " The undo files have it. Run again when no other run is at work."
        )

    def _put(self, key: str, value: dict[str, Any]) -> None:
        """Put a file if it still is what was read last."""
        tag = self._tags.pop(key)
        if tag is None:
            written = self.writer.put_if_absent(key, _encode(value))
        else:
            written = self.writer.put_if_match(key, _encode(value), tag)
        if written is not None:
            self._tags[key] = written
        flush_local(self.writer.uri, key)


def _runs_of(entry: Mapping[str, Any] | None) -> list[str]:
    """Runs that removed rows of a partition, oldest first."""
    return [] if entry is None else [*entry.get("earlier", ()), entry["run_id"]]


def _entry(at: str, runs: Sequence[str]) -> dict[str, Any]:
    *earlier, run_id = runs
    return {"run_id": run_id, "at": at, "earlier": earlier}


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode()


def _identity(store: RowReader) -> dict[str, Any]:
    return {"location": store.location, "installation": _installation(store)}


def _is_about(known: Mapping[str, Any], identity: Mapping[str, Any]) -> bool:
    return all(known.get(name) == value for name, value in identity.items())


def _installation(store: RowReader) -> str:
    """Digest of the id that a lakeFS installation gives itself; "" where there is none."""
    with store.view() as view:
        key = b"installation_id"
        found = next((entry.value for entry in view.scan(b"auth", key) if entry.key == key), b"")
    return hashlib.sha256(found).hexdigest()[:16] if found else ""
