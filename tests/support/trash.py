"""Worlds for the cleaner of trash, and a repeated observer."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from dredge.kv.rows import Row
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json, to_json
from dredge.runs.pending.store import POINTER, PendingList, write_part
from dredge.storage import open_writer
from dredge.trash.apply import Applier
from dredge.trash.findings import TrashFinding, TrashLimits, TrashMargins
from dredge.trash.look import contents_of, read_look, value_digest
from dredge.trash.rules import classify
from dredge.trash.state import TrashState
from dredge.trash.steps import CleanReport, ScanReport, clean, scan
from dredge.trash.undo import UndoLog
from dredge.trash.waiting import advance_waiting, no_list
from lakefs_embedded.kv import open_store
from tests.support.kv_world import World

MARGINS = TrashMargins()


class Watcher:
    """Reads a world repeatedly, like runs of the cleaner."""

    def __init__(self, world: World, margins: TrashMargins = MARGINS) -> None:
        self.world = world
        self.margins = margins
        self.waiting = no_list()
        self.looks = 0

    def look(self, after: timedelta = timedelta(0)) -> dict[tuple[bytes, bytes | None], TrashFinding]:
        self.world.store.now += after
        self.looks += 1
        now = self.world.now
        found = classify(read_look(self.world.store), now, self.margins)
        findings = advance_waiting(self.waiting, found, f"look {self.looks}", now, now, self.margins)
        return {(f.partition, f.key): f for f in findings}

    def verdict_of(
        self, partition: bytes, key: bytes | None = None, after: timedelta = timedelta(0)
    ) -> tuple[str, str] | None:
        found = self.look(after).get((partition, key))
        return (found.kind, found.verdict) if found else None


class Ground:
    """A world with a live repository `lake` and an unreferenced staging partition."""

    def __init__(self, state: TrashState) -> None:
        self.world = World()
        self._writer = state.writer
        self.partition, self.main = self.world.repository("lake")
        self.head = next(iter(self.world.kv.scan(self.partition, b"commits/"))).key[8:].decode()
        self.orphan = self.world.stage(self.world.token("lake", "main"))

    @property
    def state(self) -> TrashState:
        return TrashState(self._writer)

    def scan(self, after: timedelta = timedelta(0), **options: Any) -> ScanReport:
        self.world.store.now += after
        return scan(
            self.world.store, self.state, clock=self.world.store.machine_clock, margins=MARGINS, **options
        )

    def clean(self, after: timedelta = timedelta(0), **options: Any) -> CleanReport:
        self.world.store.now += after
        return clean(
            self.world.store,
            self.state,
            **{
                "clock": self.world.store.machine_clock,
                "margins": MARGINS,
                "limits": TrashLimits(),
                "dry_run": False,
            }
            | options,
        )

    def name_orphan(self) -> None:
        """The last write of a reset by prefix: the branch gets the token."""
        self.world.branch(self.partition, "main", self.head, self.orphan.decode(), sealed=[self.main])

    def orphan_rows(self) -> int:
        return len(list(self.world.kv.scan(self.orphan)))

    def before_view(self, number: int, action: Callable[[], None]) -> None:
        """Run a callable before a run opens its nth view: 1 the store's identity, 2 first look, 3 second
        look, 4 the first deletion's.
        """
        store, view, views = self.world.store, self.world.store.view, [0]

        def watched() -> Any:
            views[0] += 1
            if views[0] == number:
                action()
            return view()

        store.view = watched  # type: ignore[method-assign]

    def before_deletion(self, number: int, action: Callable[[], object]) -> None:
        """Run a callable right before the nth deletion is sent; the deletion still arrives."""
        hooks = self.world.store.before_delete
        hooks.append(action if number == 1 else lambda: self.before_deletion(number - 1, action))

    def killed(self, deletes: bool = True, **options: Any) -> str:
        """Let a run die right after its first deletion, or right before it; returns the run."""

        def die() -> None:
            raise KeyboardInterrupt

        store = self.world.store
        (store.after_delete if deletes else store.before_delete).append(die)
        with pytest.raises(KeyboardInterrupt):
            self.clean(**options)
        run = self.state.open_run()
        assert run is not None
        return run

    def report(self) -> Any:
        return json.loads(self.state.writer.get(f"runs/{self.state.runs()[0]}/report.json"))


def fates(report: CleanReport) -> list[str]:
    return [outcome.fate for outcome in report.outcomes]


def partition_of(ground: Ground, partition: bytes) -> TrashFinding:
    rows = list(ground.world.kv.scan(partition))
    contents = contents_of(rows)
    assert contents is not None
    return TrashFinding(partition, None, "staging-orphan", "trash", "", len(rows), digest=contents.digest)


def key_of(ground: Ground, partition: bytes, key: bytes) -> TrashFinding:
    value = ground.world.kv.get(partition, key)
    assert value is not None
    return TrashFinding(partition, key, "import-expired", "trash", "", 1, digest=value_digest(value))


def applier(ground: Ground, check_right: Callable[[], None] = lambda: None, **options: Any) -> Applier:
    """An applier with the ground's store; the only undo files are its own."""
    return Applier(ground.world.store, UndoLog(ground.state.writer, "undo"), check_right, **options)


def trashed_store(folder: Path) -> tuple[set[Row], set[Row]]:
    """Make a SQLite store `kv.db` with a live repository, written three days ago, and trash of two kinds."""
    world = World(datetime.now(UTC) - timedelta(days=3))
    partition, token = world.repository("lake")
    world.stage(token)
    orphan = world.stage(world.token("lake", "main"))
    expired = world.import_status(partition, world.now)
    rows = world.store.all_rows()
    with open_store(f"sqlite://{folder}/kv.db") as store:
        for row in rows:
            store.set(*row)
    return (
        {row for row in rows if row.partition == orphan},
        {row for row in rows if (row.partition, row.key) == (partition, expired)},
    )


def age_waits(state: Path) -> None:
    """Move the beginnings of all waits two days back."""
    writer = open_writer(f"file://{state}")
    pointer = json.loads(writer.get(POINTER))
    pending = from_json(PendingList, pointer)
    rows = pa.concat_tables(RunFolder(writer, "the list").read_part(part) for part in pending.parts.values())
    back = pa.scalar(datetime.now(UTC) - timedelta(days=2), rows.schema.field("since").type)
    since = pc.if_else(pc.is_valid(rows["since"]), back, rows["since"])
    rows = rows.set_column(rows.schema.get_field_index("since"), rows.schema.field("since"), since)
    parts = {0: write_part(writer, "aged", 0, rows)}
    writer.put(POINTER, json.dumps(to_json(replace(pending, parts=parts))).encode())
