"""The rules of the trash cleaner's world.

At each row deleted by the cleaner: it is not reachable from any live row; it is in an undo file; it was old enough, and
unchanged for the grace. Later: no removed row is reachable, unless an operation took longer than the grace, and then it
is restored. In the end: no trash except the reported one.
"""

import base64
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.kv.rows import Row, show, show_key
from dredge.trash.report import CleanReport
from tests.simulation.clock import instant
from tests.simulation.history import Simulation, Violation
from tests.simulation.kv import WatchedKV
from tests.simulation.scheduler import Actor, Process
from tests.simulation.trash.named import (
    ACTIONS,
    HANDED_OVER,
    MARKERS,
    NEVER,
    OWNERS,
    PULLS,
    REPOSITORIES,
    SERVERS,
    Named,
    birth_of,
    has_substance,
    keeps_action,
    keeps_index,
    keeps_owner,
    keeps_status,
    life_of,
    may_be_of_either_life,
    read_named,
    tokens_of,
)
from tests.simulation.trash.rows import rows_of

GRACE_SECONDS = 23.8 * 3600
"""The promised grace, without the maximum error of clocks."""
IN_DELETION = 1
FOLLOWS = frozenset({"marker", "pull-index", "staging"})
"""Kinds waiting for a person's decision about an instance without a record."""


@dataclass
class Oracle:
    simulation: Simulation  # of the history
    store: WatchedKV  # past all doors
    # what the plan of a process's run allows; None where none bounds it
    approved: Callable[[Process], frozenset[tuple[bytes, bytes | None]] | None] = lambda _process: None
    begun: dict[Actor, float] = field(default_factory=dict)  # when each request of a server began
    lost: set[bytes] = field(default_factory=set)  # lives that lost their record while they were in use
    changed: dict[tuple[bytes, bytes], float] = field(default_factory=dict)  # when each row changed last
    undone: set[Row] = field(default_factory=set)  # rows that undo files hold
    # deleted rows without a restore
    removed: dict[tuple[bytes, bytes], Row] = field(default_factory=dict)
    rows_deleted: int = 0  # how many it deleted
    # partitions first referenced by a record after a removal of some of their rows
    named_again: set[bytes] = field(default_factory=set)
    # since when records name each partition that they name
    named_since: dict[bytes, float] = field(default_factory=dict)
    # the last record of each name in use, after its removal
    records: dict[str, bytes] = field(default_factory=dict)
    # when each process of the cleaner, by its name, last opened a view
    looked: Mapping[str, float] = field(default_factory=dict)
    # when each began to read the rows of each partition last
    read: Mapping[tuple[str, bytes], float] = field(default_factory=dict)
    removed_by: dict[tuple[bytes, bytes], str] = field(default_factory=dict)
    # tokens with rows, on branches until a table was restored to an earlier day, and seen there by the cleaner;
    # each with the time of that. They are held for a day from the next look on, and then wait
    torn: dict[bytes, float] = field(default_factory=dict)
    _mirror: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)
    _ours: bool = False

    def on_change(self, partition: bytes, key: bytes, value: bytes | None) -> None:
        before = self._mirror.get((partition, key))
        if before != value:
            self.changed[partition, key] = self.simulation.scheduler.now
        if value is None:
            self._mirror.pop((partition, key), None)
        else:
            self._mirror[partition, key] = value
        if self._ours:
            return
        self.removed.pop((partition, key), None)  # a server wrote it again, or removed it itself
        if partition == REPOSITORIES:
            self._record_changed(before, value)
        elif value is not None and key.startswith(b"branches/"):
            self._named(tokens_of(value))
        if partition == REPOSITORIES or key.startswith(b"branches/"):
            self._note_named()

    @contextmanager
    def losing(self) -> Iterator[None]:
        """The store, or a part of it, is restored to an earlier day within the block."""
        seen = max(self.looked.values(), default=float("-inf"))
        before = {token for token in read_named(self.store).tokens if self.named_since[token] < seen}
        self.removed.clear()  # the restore of the store has referenced it again
        yield
        now = read_named(self.store).tokens
        torn = [token for token in before - now.keys() if next(iter(self.store.scan(token)), None)]
        self.torn |= dict.fromkeys(torn, self.simulation.scheduler.now)

    def on_put(self, key: str, data: bytes) -> None:
        """An object was written to the state folder's bucket."""
        if "/undo/" in key:
            for line in data.splitlines():
                row = json.loads(line)
                self.undone.add(Row(*(base64.b64decode(row[part]) for part in Row._fields)))
        elif key.endswith("/plan.json"):
            self._check_plan(json.loads(data))

    def on_delete(self, row: Row) -> None:
        why = self.why_live(row)
        name = show_key(row.partition, row.key)
        if why:
            self.simulation.violate("live", f"{name} is deleted: {why}")
        if row not in self.undone:
            self.simulation.violate("undo", f"{name} is deleted and in no undo file")
        if not self._is_approved(row):
            self.simulation.violate("plan", f"{name} is deleted, and is not in the plan of its run")
        young = self._too_early(row)
        if young:
            self.simulation.violate("grace", f"{name} is deleted: {young}")
        self.removed[row.partition, row.key] = row
        self.removed_by[row.partition, row.key] = self._process()
        self.rows_deleted += 1
        self.simulation.states[f"deleted {self._kind(row)}"] += 1
        self._ours = True
        try:
            self.store.delete(row.partition, row.key)
        finally:
            self._ours = False

    def on_insert(self, row: Row) -> None:
        since = self.named_since.get(row.key) if row.partition == MARKERS else None
        if since is not None and since < self.looked.get(self._process(), 0.0):
            self.simulation.violate("queued", f"{show(row.key)} is queued again, and a branch names it")
        self.removed.pop((row.partition, row.key), None)
        self.simulation.states["put back"] += 1

    def why_live(self, row: Row) -> str:
        """Reason to keep a row, from the present rows; "" without one."""
        partition = row.partition
        named = self._read_named()
        if partition in NEVER:
            return "nothing of that partition is trash"
        if partition == HANDED_OVER:
            owner = b"-".join(row.key.split(b"/")[1:])
            looked = self.read.get((self._process(), owner), 0.0)
            # Rows of a frozen creation after the last look are for the next run, like those of any failed one.
            left = any(self.changed[owner, each.key] <= looked for each in self.store.scan(owner))
            return "its repository's rows are not gone" if left or owner in named.lives else ""
        if partition == MARKERS:
            looked = self.looked.get(self._process(), 0.0)
            # Rows since the last look are for the next run: they are not queued.
            left = any(self.changed[row.key, each.key] <= looked for each in self.store.scan(row.key))
            return "its token is not empty" if left and row.key not in named.tokens else ""
        if partition in (PULLS, ACTIONS, OWNERS):
            rule = {PULLS: keeps_index, ACTIONS: keeps_action, OWNERS: keeps_owner}[partition]
            return rule(self.store, row, named, self._now())
        if partition == SERVERS:
            return keeps_status(row, self._now())
        return self._why_partition(row, named)

    def has_removed(self, partition: bytes) -> bool:
        """Whether the cleaner removed rows of an instance, or of its staged changes, without a restore."""
        gone = {row.partition for row in self.removed.values()}
        tokens = read_named(self.store, [partition]).tokens
        return bool(gone & {partition, *(token for token, owners in tokens.items() if partition in owners)})

    def check_put_back_by(self, process: str, report: CleanReport) -> None:
        """A successful run has restored its removals with a reference at its last look."""
        if report.status not in ("done", "partial"):
            return
        for place, row in self.removed.items():
            since = self.named_since.get(row.partition)
            if self.removed_by[place] != process or since is None:
                continue
            if since < self.looked[process] and not self._single_keys({row.partition}):
                name = show_key(row.partition, row.key)
                self.simulation.violate(
                    "put back", f"a run ends as {report.status}: it removed {name}, which a record names"
                )

    def check_put_back(self) -> None:
        named = read_named(self.store)
        for row in self.removed.values():
            if row.partition in named.tokens or (
                row.partition in named.lives and not row.key.startswith((b"imports/", b"tasks/"))
            ):
                name = show_key(row.partition, row.key)
                raise Violation("put back", f"{name} was removed, a record names it, and it is not there")

    def check_trash(self, report: CleanReport) -> None:
        """Every remaining row is live or in the last report, with a reason to keep it."""
        findings = {(found.partition, found.key): found for found in report.scan.findings}
        undecided = {
            found.partition
            for found in report.scan.findings
            if found.verdict == "report" and found.key is None
        }
        for row in self._garbage():
            found = findings.get((row.partition, None)) or findings.get((row.partition, row.key))
            name = show_key(row.partition, row.key)
            if found is None:
                if row.partition in (ACTIONS, OWNERS) and self._follows(row, undecided):
                    continue
                raise Violation("trash", f"{name} is trash, and the report does not name it")
            patient = found.kind == "multipart" or (found.kind in FOLLOWS and undecided)
            if found.verdict != "report" and not patient:
                raise Violation("trash", f"{name} is still there: {found.kind}, {found.verdict}, {found.why}")
            self.simulation.states[f"left {found.kind}"] += 1

    def _follows(self, row: Row, undecided: Collection[bytes]) -> bool:
        return any(birth_of(found) and show(found)[:-21] in show(row.key) for found in undecided)

    def _garbage(self) -> Iterator[Row]:
        named = self._read_named()
        for row in rows_of(self.store):
            partition = row.partition
            if partition in NEVER or partition in named.lives or partition in named.tokens:
                continue
            if partition == HANDED_OVER and b"-".join(row.key.split(b"/")[1:]) in named.lives:
                continue  # its record was restored
            if partition == ACTIONS and may_be_of_either_life(row, named):
                continue
            if (
                partition in self.lost
                or partition in self.torn
                or (partition not in (HANDED_OVER, MARKERS) and self.why_live(row))
            ):
                continue
            yield row

    def _why_partition(self, row: Row, named: Named) -> str:
        partition = row.partition
        life = named.lives.get(partition)
        if life is not None:
            if row.key.startswith((b"imports/", b"tasks/")) and not life.state:
                return keeps_status(row, self._now())
            return f"the record of {life.name} names its partition"
        if partition in named.tokens:
            owners = ", ".join(sorted(map(show, named.tokens[partition])))
            return f"a branch of {owners} names its token"
        if (
            partition in self.torn
            and self.simulation.scheduler.now < self._missed(partition) + 2 * GRACE_SECONDS
        ):
            return "a branch named its token until a table was put back"
        if partition in self.lost and has_substance(self.store, partition):
            return "its life lost its record while it was in use, and holds what users would miss"
        if birth_of(partition) is None and b":" not in partition:
            return "nobody knows what that partition is"
        return ""

    def _missed(self, token: bytes) -> float:
        return min(at for at in self.looked.values() if at > self.torn[token])

    def _is_approved(self, row: Row) -> bool:
        asked = self.approved(self.simulation.scheduler.process)
        if asked is None or (row.partition, None) in asked or (row.partition, row.key) in asked:
            return True
        owner = b"-".join(row.key.split(b"/")[1:])
        return row.partition == HANDED_OVER and (owner, None) in asked

    def _too_early(self, row: Row) -> str:
        partition = row.partition
        judged_alone = (HANDED_OVER, SERVERS, PULLS, ACTIONS, OWNERS, MARKERS)
        if partition in judged_alone or partition in self._read_named().lives:
            return ""
        born = birth_of(partition)
        if born is not None:
            entry = b"repo/" + partition[:-21] + b"/" + partition[-20:]
            if any(found.key == entry for found in self.store.scan(HANDED_OVER, entry)):
                return ""
            if (self._now() - born).total_seconds() < GRACE_SECONDS:
                return f"its life began at {born}"
        elif any(found.key == partition for found in self.store.scan(MARKERS, partition)):
            return ""
        since = self.simulation.scheduler.now - self.changed.get((partition, row.key), float("-inf"))
        return f"it was written {since / 3600:.1f} h ago" if since < GRACE_SECONDS else ""

    def _record_changed(self, before: bytes | None, value: bytes | None) -> None:
        old = life_of(before) if before is not None else None
        new = life_of(value) if value is not None else None
        if old is not None and (new is None or new.partition != old.partition) and not old.state:
            self.lost.add(old.partition)
            self.simulation.states["life lost its record"] += 1
        if before is not None and old is not None and not old.state and (new is None or new.state):
            self.records[old.name] = before
        if new is not None:
            self.lost.discard(new.partition)
            branches = self.store.scan(new.partition, b"branches/")
            self._named(
                [
                    new.partition,
                    *(t for e in branches if e.key.startswith(b"branches/") for t in tokens_of(e.value)),
                ]
            )

    def _note_named(self) -> None:
        named, now = read_named(self.store), self.simulation.scheduler.now
        self.named_since = {name: self.named_since.get(name, now) for name in (*named.lives, *named.tokens)}

    def _check_plan(self, plan: Mapping[str, Any]) -> None:
        process = self._process()
        for finding in plan["findings"]:
            partition = base64.b64decode(finding["partition"])
            since, read = self.named_since.get(partition), self.read.get((process, partition))
            if finding["key"] is None and since is not None and read is not None and since < read:
                self.simulation.violate("plan", f"{show(partition)} is planned, and a record names it")

    def _process(self) -> str:
        return self.simulation.scheduler.process.name

    def _named(self, partitions: Collection[bytes]) -> None:
        gone = {row.partition for row in self.removed.values()} & set(partitions) - self.named_again
        if not gone:
            return
        self.named_again |= gone  # the next change of this record adds no reference
        scheduler = self.simulation.scheduler
        began = (
            scheduler.now if scheduler.current is None else self.begun.get(scheduler.current, scheduler.now)
        )
        hours = (scheduler.now - began) / 3600
        words = f"{', '.join(sorted(map(show, gone)))} was removed and is named now"
        if hours < GRACE_SECONDS / 3600 and not self._single_keys(gone):
            self.simulation.violate("named after", f"{words}, by an operation of {hours:.1f} h")
        self.simulation.states["named after removal"] += 1

    def _single_keys(self, gone: Collection[bytes]) -> bool:
        rows = (row for row in self.removed.values() if row.partition in gone)
        return all(row.key.startswith((b"imports/", b"tasks/")) for row in rows)

    def _read_named(self) -> Named:
        lost = [partition for partition in self.lost if has_substance(self.store, partition)]
        return read_named(self.store, lost)

    def _now(self) -> datetime:
        return instant(self.simulation.scheduler.now)

    def _kind(self, row: Row) -> str:
        if b":" in row.partition:
            return "token"
        return "life" if birth_of(row.partition) else show(row.partition)
