"""What the cleaner remembers between its runs: a folder on any object store.

store.json               which store this is about
lease.json               who works on it
sightings.json           what was unused, since when
open.json                the run that is removing, until it has verified
runs/<run id>/plan.json · undo/00001.jsonl … · report.json · report.html
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.kv.rows import RowReader
from dredge.runs.lease import Lease
from dredge.storage import ObjectWriter, store_clock
from dredge.trash.plan import TrashPlan
from dredge.trash.report import render
from dredge.trash.sightings import Sightings
from dredge.trash.undo import UndoLog, flush_local

_LEASE = timedelta(minutes=10)
REMEMBERED = timedelta(days=7)
_STORE, _SIGHTINGS, _OPEN, _REMOVED = "store.json", "sightings.json", "open.json", "removed.json"


class TrashState:
    """The state folder of one key-value store.

    Args:
        writer: on the folder.
    """

    def __init__(self, writer: ObjectWriter) -> None:
        self.writer = writer

    @contextmanager
    def held(self, holder: str) -> Iterator[None]:
        """Work alone.

        Raises:
            LeaseHeldError: somebody else does.
        """
        lease = Lease(self.writer, _LEASE, lambda: store_clock(self.writer, ""))
        grant = lease.acquire(holder)
        try:
            with lease.kept(grant):
                yield
        finally:
            lease.release(grant)

    def claim(self, store: RowReader) -> None:
        """Check that the folder is about this store; the first use of a folder makes it so.

        What was unused in one store says nothing about a copy of it, which may be older.

        Raises:
            RefusedError: it is about another one.
        """
        identity = {"location": store.location, "installation": _installation(store)}
        known = self._read(_STORE)
        if known is None:
            self._write(_STORE, identity)
        elif known != identity:
            raise RefusedError(
                f"{self.writer.uri} is about {known.get('location')}, not about {store.location}"
                " (or that store was set up anew since). Nothing was judged. Use a folder of its own for each"
                " store."
            )

    def sightings(self) -> Sightings:
        """What earlier looks saw unused; nothing at the first one."""
        known = self._read(_SIGHTINGS)
        return Sightings() if known is None else Sightings.from_json(known)

    def save_sightings(self, sightings: Sightings) -> None:
        """Remember what this look saw unused."""
        self._write(_SIGHTINGS, sightings.to_json())

    def open_run(self) -> str | None:
        """The run that was removing when it ended without verifying."""
        known = self._read(_OPEN)
        return known.get("run_id") if known else None

    def set_open_run(self, run_id: str | None) -> None:
        """Say which run is removing."""
        self._write(_OPEN, {"run_id": run_id})

    def removed(self) -> dict[bytes, str]:
        """Partitions that were removed lately, with the run that did it."""
        known = self._read(_REMOVED) or {}
        return {base64.b64decode(name): run["run_id"] for name, run in known.items()}

    def note_removed(self, partitions: Iterable[bytes], run_id: str, now: datetime) -> None:
        """Remember what a run removed, and forget what is a week old."""
        known = self._read(_REMOVED) or {}
        fresh = {
            name: run for name, run in known.items() if now - datetime.fromisoformat(run["at"]) < REMEMBERED
        }
        entry = {"run_id": run_id, "at": now.isoformat()}
        self._write(_REMOVED, fresh | {base64.b64encode(name).decode(): entry for name in partitions})

    def forget_removed(self, partitions: Iterable[bytes]) -> None:
        """Forget partitions that were put back."""
        known = self._read(_REMOVED) or {}
        gone = {base64.b64encode(name).decode() for name in partitions}
        self._write(_REMOVED, {name: run for name, run in known.items() if name not in gone})

    def undo(self, run_id: str) -> UndoLog:
        """The undo files of a run."""
        return UndoLog(self.writer, f"runs/{run_id}/undo")

    def save_plan(self, plan: TrashPlan) -> None:
        """Keep a plan for approval."""
        self._write(f"runs/{plan.run_id}/plan.json", plan.to_json())

    def plan(self, run_id: str) -> TrashPlan:
        """Read a plan.

        Raises:
            NotFoundError: the run has none.
            FormatError: it was changed.
        """
        known = self._read(f"runs/{run_id}/plan.json")
        if known is None:
            raise NotFoundError(f"{self.writer.uri}: run {run_id} has no plan")
        return TrashPlan.from_json(known)

    def save_report(self, run_id: str, report: dict[str, Any]) -> None:
        """Keep what a run found and did, for programs and for people."""
        self._write(f"runs/{run_id}/report.json", report)
        self.writer.put(f"runs/{run_id}/report.html", render(report).encode())

    def runs(self) -> list[str]:
        """Every run, newest first."""
        return [name.split("/")[-2] for name in self.writer.list_level("runs/").folders]

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            data = self.writer.get(key)
        except NotFoundError:
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

    def _write(self, key: str, value: dict[str, Any]) -> None:
        self.writer.put(key, json.dumps(value, indent=1).encode())
        flush_local(self.writer.uri, key)


def _installation(store: RowReader) -> str:
    """Digest of the id that a lakeFS installation gives itself; "" where there is none."""
    with store.view() as view:
        key = b"installation_id"
        found = next((entry.value for entry in view.scan(b"auth", key) if entry.key == key), b"")
    return hashlib.sha256(found).hexdigest()[:16] if found else ""
