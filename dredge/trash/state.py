"""The state folder of the cleaner, on any object store.

store.json               the store of this folder
lease.json               the holder, with its number
pending/…                unreferenced rows, since when (`waiting`)
noted.json               references of earlier looks (`partition_rules.Noted`)
open.json                the removing run, until it is verified
removed.json             removals of the last 90 days, with their runs
runs/<run id>/plan.json · undo/00001.jsonl … · report.json · report.html

Every try has the number of its lease. An orphaned process may continue after a later try took the lease, so each write
of a shared file first checks the number, and replaces only the version that this try read. `removed.json` is the
exception: every try adds its removals.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

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
from dredge.runs.pending.store import is_part, list_superseded_parts
from dredge.runs.versions import KEEP_DAYS_MIN
from dredge.storage import ObjectWriter, StorageOptions, store_clock
from dredge.trash.findings import TrashPlan
from dredge.trash.partition_rules import Noted
from dredge.trash.report import render
from dredge.trash.undo import UndoLog

log = logging.getLogger("dredge")

_LEASE = timedelta(minutes=10)
REMEMBERED = timedelta(days=90)
STORE = "store.json"
_OPEN, _REMOVED, _NOTED = "open.json", "removed.json", "noted.json"
_MERGES_MAX = 10


class Right(Struct, frozen=True):
    """The right of one try to write a state folder and its store; `clock` is the folder's."""

    lease: Lease
    grant: LeaseGrant
    clock: Callable[[], datetime]

    def check(self) -> None:
        """Raise LeaseHeldError unless this is the newest try and its lease is valid."""
        self.lease.check(self.grant, self.clock())


class TrashState:
    """The state folder of one key-value store. `right`: None may read, and write the files of its run."""

    def __init__(
        self, writer: ObjectWriter, right: Right | None = None, options: StorageOptions | None = None
    ) -> None:
        self.writer = writer
        self._right = right
        self._options = options
        self._tags: dict[str, str | None] = {}

    @contextmanager
    def held(self, holder: str) -> Iterator[TrashState]:
        """Take the lease, and yield the folder with the right to write. `holder`: the same for every try of a task, so
        that a later try fences the earlier off without waiting for its lease to expire. Raises LeaseHeldError: another
        run holds the lease."""
        lease = Lease(self.writer, _LEASE, self.now)
        grant = lease.acquire(holder)
        with lease.given_back(grant), lease.kept(grant):
            yield TrashState(self.writer, Right(lease, grant, self.now), self._options)

    @property
    def attempt(self) -> int:
        """Number of the try, larger than all earlier numbers; 0 without a right."""
        return self._right.grant.fencing if self._right else 0

    def now(self) -> datetime:
        """Time of the folder's store."""
        return store_clock(self.writer, "")

    def check_right(self) -> None:
        """Raise LeaseHeldError unless this try may continue; called right before every removal."""
        if self._right is None:
            raise LeaseHeldError(f"{self.writer.uri}: this run does not hold its lease. Nothing was changed.")
        self._right.check()

    def claim(self, store: RowReader) -> str:
        """Check that the folder belongs to this store; the first use of a folder decides.

        The rows of one store prove nothing about a copy of it, which may be older. A restore of the database changes
        the store's id; then the times of tokens begin again, like all waits. Returns the change, for the report; ""
        without a change."""
        identity, own = _identity(store), store.own_id()
        known = self._read(STORE)
        if known is None:
            self._replace(STORE, identity | {"own_id": own})
        elif not _is_about(known, identity):
            raise RefusedError(
                f"{self.writer.uri} belongs to {known.get('location')}, not to {store.location} (or that store was set"
                " up again since). Nothing was removed. Use a separate folder for each store."
            )
        elif known.get("own_id", own) != own:
            self.save_noted(self.noted().without_times())
            self._replace(STORE, identity | {"own_id": own})
            note = (
                f"The database of {store.location} is not that of the last look (PostgreSQL: system identifier,"
                " timeline or table; DynamoDB: TableId), as after a restore or a failover: all waits begin again."
            )
            log.warning("trash: %s", note)
            return note
        return ""

    def belongs(self, store: RowReader) -> tuple[bool, bool]:
        """Whether the folder belongs to this store or is new, and whether the database is the same as at the last
        look."""
        known = self._read(STORE)
        if known is None:
            return True, True
        own = store.own_id()
        return _is_about(known, _identity(store)), bool(known.get("own_id", own) == own)

    def noted(self) -> Noted:
        """References of earlier looks; none before the first look."""
        known = self._read(_NOTED)
        return Noted() if known is None else from_file(Noted, known)

    def save_noted(self, noted: Noted) -> None:
        """Keep the references of this look; raises LeaseHeldError if a later try has taken over."""
        self._replace(_NOTED, to_json(noted) | {"try": self.attempt})

    def open_run(self) -> str | None:
        """The removing run, if it is not verified."""
        known = self._read(_OPEN)
        return known.get("run_id") if known else None

    def set_open_run(self, run_id: str | None) -> None:
        """Set the removing run; raises LeaseHeldError if a later try has taken over."""
        self._replace(_OPEN, {"run_id": run_id, "try": self.attempt})

    def removed(self) -> dict[bytes, str]:
        """Partitions with removals in the last 90 days, with the last removing run."""
        return {name: runs[-1] for name, runs in self.removed_by().items()}

    def removed_by(self) -> dict[bytes, list[str]]:
        """Like `removed`, with every removing run: a killed run leaves some rows."""
        known = self._read(_REMOVED) or {}
        return {base64.b64decode(name): _runs_of(run) for name, run in known.items()}

    def note_removed(
        self, partitions: Iterable[bytes], run_id: str, now: datetime, *, forget: bool = True
    ) -> None:
        """Add the removals of a run; with `forget`, drop those older than `REMEMBERED`.

        A run may forget old removals only after comparing them with the references.
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
        """Drop the removals of restored partitions by one run; None: by all runs."""
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
        """Write the plan of a run, once."""
        key = f"runs/{plan.run_id}/plan.json"
        try:
            self.writer.put_if_absent(key, _encode(to_sealed(plan)))
        except ConflictError:
            raise LeaseHeldError(
                f"{self.writer.uri}/{key}: this run already has a plan, so another process uses its id. Nothing was"
                " removed. Run again."
            ) from None

    def plan(self, run_id: str) -> TrashPlan:
        """Read the plan of a run."""
        known = self._read(f"runs/{run_id}/plan.json")
        if known is None:
            raise NotFoundError(f"{self.writer.uri}: run {run_id} has no plan")
        return from_sealed(TrashPlan, known)

    def save_report(self, run_id: str, report: dict[str, Any]) -> None:
        """Write the report of a run, as JSON and HTML, with the holder."""
        if self._right is not None:
            report = {**report, "holder": self._right.grant.holder}
        self.writer.put(f"runs/{run_id}/report.json", _encode(report))
        self.writer.put(f"runs/{run_id}/report.html", render(report).encode())

    def remove_old_lists(self) -> None:
        """Remove parts of pending lists that were replaced a week ago; an error is a warning, as the files do no
        harm."""
        try:
            week_ago = self.now() - timedelta(days=KEEP_DAYS_MIN)
            old = list(
                list_superseded_parts(self.writer, ListedFiles.of(self.writer, f"{PENDING}/", week_ago))
            )
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
            f"{self.writer.uri}/{key} is not a JSON object. Nothing was removed. Restore the file, or use an empty"
            " state folder."
        )

    def _replace(self, key: str, value: dict[str, Any]) -> None:
        """Write a shared file, if it is unchanged since this try read it, and this try is the newest."""
        if key not in self._tags:
            self._read(key)
        self.check_right()
        try:
            self._put(key, value)
        except ConflictError:
            raise LeaseHeldError(
                f"{self.writer.uri}/{key} was changed by another run during this run (number {self.attempt}). That"
                " file is kept, and nothing more was removed. Run again after that run."
            ) from None

    def _merge_removed(self, merge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        for _ in range(_MERGES_MAX):
            known = self._read(_REMOVED) or {}
            try:
                return self._put(_REMOVED, merge(known))
            except ConflictError:
                continue
        raise UnavailableError(
            f"{self.writer.uri}/{_REMOVED}: other runs kept changing it, so the removals of this run are only in its"
            " undo files. Run again when no other run is in progress."
        )

    def _put(self, key: str, value: dict[str, Any]) -> None:
        """Write a file if it is unchanged since the last read."""
        tag = self._tags.pop(key)
        if tag is None:
            written = self.writer.put_if_absent(key, _encode(value))
        else:
            written = self.writer.put_if_match(key, _encode(value), tag)
        if written is not None:
            self._tags[key] = written


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
    """Digest of the id of the lakeFS installation; "" without one."""
    with store.view() as view:
        key = b"installation_id"
        found = next((entry.value for entry in view.scan(b"auth", key) if entry.key == key), b"")
    return hashlib.sha256(found).hexdigest()[:16] if found else ""
