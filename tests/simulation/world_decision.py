"""The world of the decision alone: pending objects, confirmations and witnesses, over a model of the truth.

A history takes some 50 ms instead of the seconds of a whole installation, so tens of thousands can be played. Real are
the pending list (`advance`, `due`, the check of a list), the known commits and the unnamed metaranges. The repository,
its store and the steps of a run are plain values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from dredge.errors import ConflictError, NotFoundError
from dredge.gc.witness.mark import find_unknown, sort_out
from dredge.gc.witness.record import COMMITS, Known, Past
from dredge.hashing import hash64
from dredge.lakefs.files.sstable import METARANGES
from dredge.runs.pending.rows import FOUND, PENDING, YOUNG, Turn, advance, due
from dredge.runs.pending.store import POINTER, Expected, PendingList, read_list, write_list
from dredge.storage import open_writer
from dredge.storage.model import ObjectInfo
from tests.simulation.clock import DAY, HOUR, instant
from tests.simulation.history import Move, Scene, Simulation, World
from tests.simulation.noise import stable_hash, unit
from tests.support.memory_store import memory_store

GRACES = (20.0, 24.0, 72.0)
MIN_AGE = timedelta(hours=25)
KEEP_UNNAMED = timedelta(days=30)
NUMBERS = 12
"""Addresses of a history."""
STOPS = ("", "", "", "", "before list", "after list", "half deleted")
WRITES = (
    "upload", "upload", "long upload", "long upload", "commit", "commit", "reset", "expire", "revive",
    "restage", "replace", "orphan",
)  # fmt: skip
HARMS = (
    "back up", "put back", "put back", "blind", "clock back", "lose list", "old list", "hold", "forget",
    "mend",
)  # fmt: skip
SUBJECT = "memory://decision/lake"


@dataclass(frozen=True)
class Thing:
    etag: str
    modified: datetime


@dataclass(frozen=True)
class Commit:
    """A commit of lakeFS; its metarange has its id."""

    addresses: frozenset[str]
    active: bool = True


@dataclass
class Database:
    staged: set[str] = field(default_factory=set)
    commits: dict[str, Commit] = field(default_factory=dict)

    def copy(self) -> Database:
        return Database(set(self.staged), dict(self.commits))

    def active(self) -> dict[str, Commit]:
        return {name: commit for name, commit in self.commits.items() if commit.active}


@dataclass
class Seen:
    """The addresses read by a mark or a re-check."""

    live: set[str]
    shown: dict[str, Commit]


@dataclass
class DecisionScene(Scene):
    simulation: Simulation
    grace: timedelta
    things: dict[str, Thing] = field(default_factory=dict)
    database: Database = field(default_factory=Database)
    backups: list[Database] = field(default_factory=list)
    lost: dict[str, Commit] = field(default_factory=dict)
    making: dict[str, frozenset[str]] = field(default_factory=dict)
    uploading: dict[str, Thing] = field(default_factory=dict)
    metaranges: dict[str, tuple[datetime, frozenset[str]]] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    past: Past = field(default_factory=Past)
    rows: dict[str, pa.Table] = field(default_factory=dict)
    state: tuple[str | None, datetime | None, set[str]] = (None, None, set())
    lists: list[bytes] = field(default_factory=list)
    blind_until: float = -1.0
    skew: float = 0.0
    held: set[str] = field(default_factory=set)
    blocked: bool = False
    at_work: bool = False
    runs: int = 0
    changes: int = 0

    def __post_init__(self) -> None:
        store = memory_store("decision")
        store.objects.clear()
        store.clock = self.now
        self.folder = open_writer("memory://decision/state")

    def now(self) -> datetime:
        return instant(self.simulation.scheduler.now + self.skew)

    def moves(self) -> Mapping[str, Callable[..., Any]]:
        verbs = ("run", *WRITES, *HARMS, "back up", "forget", "mend")
        return {verb: getattr(self, verb.replace(" ", "_")) for verb in verbs}

    # Writers

    def upload(self, number: int) -> None:
        if f"data/{number}" in self.uploading or (f"data/{number}" in self.things and self.at_work):
            return
        self._put(number)
        self.database.staged.add(f"data/{number}")

    def long_upload(self, number: int) -> None:
        """The object is written, and staged up to a minimum age and a grace later."""
        name = f"data/{number}"
        if name in self.uploading or name in self._truth() or (name in self.things and self.at_work):
            return  # a write over an old address during a run has no promise
        self._put(number)
        thing = self.things[name]
        self.uploading[name] = thing
        most = MIN_AGE + self.grace - timedelta(hours=3)
        self.simulation.scheduler.wait((0.1, 0.5, 0.95)[number % 3] * most.total_seconds())
        del self.uploading[name]
        if self.things.get(name) == thing:
            self.database.staged.add(name)

    def orphan(self, number: int) -> None:
        if f"data/{number}" not in self._truth():
            self._put(number)

    def replace(self, number: int) -> None:
        if f"data/{number}" in self.things.keys() - self.uploading.keys():
            self._put(number)

    def restage(self, number: int) -> None:
        if f"data/{number}" in self.things:
            self.database.staged.add(f"data/{number}")

    def reset(self, _number: int) -> None:
        self.database.staged.clear()

    def commit(self, number: int) -> None:
        """The tree is written first; hooks run; then the commit exists and staging is without its entries."""
        addresses, database = frozenset(self.database.staged), self.database
        if not addresses:
            return
        self.changes += 1
        name = f"commit{self.changes}"
        self.metaranges[name] = self.now(), addresses
        self.making[name] = addresses
        self.simulation.scheduler.wait((0.0, 0.0, HOUR, 30 * HOUR)[number % 4])
        del self.making[name]
        if database is self.database:
            database.commits[name] = Commit(addresses)
            database.staged -= addresses

    def expire(self, number: int) -> None:
        self._set_active(number, self.database.active(), False)

    def revive(self, number: int) -> None:
        expired = {name: each for name, each in self.database.commits.items() if not each.active}
        self._set_active(number, expired, True)

    def _set_active(self, number: int, among: Mapping[str, Commit], active: bool) -> None:
        if among:
            name = sorted(among)[number % len(among)]
            self.database.commits[name] = replace(among[name], active=active)

    def _put(self, number: int) -> None:
        self.changes += 1
        self.things[f"data/{number}"] = Thing(f"e{self.changes}", self.now())

    # Accidents, and people

    def back_up(self, _number: int) -> None:
        self.backups.append(self.database.copy())

    def put_back(self, number: int) -> None:
        if not self.backups:
            return
        before = self.database
        self.database = self.backups[number % len(self.backups)].copy()
        lost = {**self.lost, **before.commits}
        self.lost = {name: commit for name, commit in lost.items() if name not in self.database.commits}

    def mend(self, _number: int = 0) -> None:
        """Like `dredge gc lost --apply`."""
        self.database.commits |= self.lost
        self.lost.clear()
        self.blocked = False

    def forget(self, _number: int) -> None:
        """Like `dredge gc forget-lost`, refused while a run has the lease."""
        if self.at_work:
            return
        now = self.now()
        names = self.metaranges.keys() - self.database.commits.keys() - self.making.keys()
        forgotten = {**self.past.forgotten, **dict.fromkeys(names, now)}
        given_up = {**self.past.given_up, **dict.fromkeys(names, now)}
        self.past = replace(self.past, forgotten_at=now, forgotten=forgotten, given_up=given_up)
        self.lost.clear()
        self.blocked = False

    def blind(self, number: int) -> None:
        """For less than the grace, answers about staging lack some rows, unnoticed; once in a history."""
        if self.blind_until < 0:
            share = (0.1, 0.5, 0.99)[number % 3]
            self.blind_until = self.simulation.scheduler.now + share * (self.grace.total_seconds() - 2 * HOUR)

    def clock_back(self, number: int) -> None:
        self.skew = -(0.0, 600.0, HOUR)[number % 3]

    def lose_list(self, _number: int) -> None:
        memory_store("decision").objects.pop(f"state/{POINTER}", None)

    def old_list(self, number: int) -> None:
        if self.lists:
            self.folder.put(POINTER, self.lists[number % len(self.lists)])

    def hold(self, number: int) -> None:
        self.held ^= {f"data/{number}"}

    # Runs

    def run(
        self, mode: str, dry_run: bool, min_age_hours: float, pace: float, stop: str, approval_hours: float
    ) -> None:
        if self.at_work or self.blocked:
            return
        self.at_work, self.runs = True, self.runs + 1
        try:
            self._run(mode, dry_run, timedelta(hours=min_age_hours), pace, stop, approval_hours)
        finally:
            self.at_work = False

    def _run(
        self, mode: str, dry_run: bool, min_age: timedelta, pace: float, stop: str, approval_hours: float
    ) -> None:
        wait, states = self.simulation.scheduler.wait, self.simulation.states
        run_id, marked_at = f"{10**6 - self.runs:07d}", self.now()  # ids sort newest first
        cutoff, state = marked_at - min_age, self.state
        planned = read_list(self.folder, self._expected(), marked_at)
        if planned.pending is None or state[0] is None:
            mode = "clean"
        listed = self._list(mode, planned.pending, marked_at, cutoff)
        wait(pace)
        seen = self._look(run_id, cutoff, marked_at, pace)
        client: Any = SimpleNamespace(commit=self._commit_or_404)
        if find_unknown(client, "lake", self.past, seen.shown, {}):
            self.blocked = True
            states["refused: known commits"] += 1
            return
        wait(pace)
        stored = read_list(self.folder, self._expected(), self.now())
        if stored.pending is None and mode != "clean":
            states["refused: no list"] += 1
            return
        states["nothing believed" if stored.problem else "list believed"] += 1
        previous = self._rows(stored.pending)
        found = self._found(listed, seen.live, cutoff)
        turn = Turn(
            run_id=run_id,
            marked_at=marked_at,
            now=self.now(),
            cutoff=cutoff,
            min_age=min_age,
            grace=self.grace,
            waits=True,
            lists_all=mode == "clean",
            state_of=state[0],
        )
        names = previous["address"].to_pylist()
        live, gone = (np.array([name in some for name in names], bool) for some in (seen.live, state[2]))
        advanced = advance(previous, found, live, gone, turn)
        if stop == "before list":
            return
        wait(pace)
        self.rows[run_id] = advanced.rows
        pending = PendingList(
            subject=SUBJECT, life="", run_id=run_id, marked_at=marked_at, left_at=self.now(), parts={}
        )
        try:
            write_list(self.folder, pending, stored.etag)
        except ConflictError:
            states["refused: another list"] += 1
            return
        self.lists.append(self.folder.get(POINTER))
        self._leave_record(run_id, marked_at, seen.shown)
        states["marks"] += 1
        if dry_run or stop == "after list":
            return
        chosen = {
            name
            for name, confirmed in zip(found["address"].to_pylist(), advanced.confirmed, strict=True)
            if confirmed
        }
        if chosen:
            wait(approval_hours * HOUR)
        self._delete(run_id, marked_at, cutoff, chosen, stop, pace)

    def _delete(
        self, run_id: str, marked_at: datetime, cutoff: datetime, chosen: set[str], stop: str, pace: float
    ) -> None:
        truth = self._truth()  # a reference made after the last look's beginning has no promise
        seen = self._look(f"{run_id} again", cutoff, marked_at, pace / 10)
        if self.past.active and set(self.past.active) - self.database.commits.keys():
            return  # heads lead to unknown history
        going = sorted(chosen - seen.live)
        if stop == "half deleted":
            going = going[: len(going) // 2]
        for name in going:
            if name in truth:
                self.simulation.violate("lost", f"run {run_id} deletes {name}, which is live")
            if self.things.pop(name, None) is not None:
                self.simulation.states["deleted"] += 1
        if stop != "half deleted":
            self.state = run_id, marked_at, set(going)

    def _list(
        self, mode: str, pending: PendingList | None, marked_at: datetime, cutoff: datetime
    ) -> dict[str, Thing]:
        if mode == "clean":
            return dict(self.things)
        rows = self._rows(pending)
        wanted = set(rows.filter(pa.array(due(rows, marked_at, self.grace, cutoff)))["address"].to_pylist())
        part = stable_hash(self.simulation.seed, "part", self.runs)
        wanted |= {name for name in self.things if stable_hash(part, name) % 2}
        return {name: thing for name, thing in self.things.items() if name in wanted}

    def _look(self, who: str, cutoff: datetime, marked_at: datetime, pace: float) -> Seen:
        scheduler = self.simulation.scheduler
        staged = set(self.database.staged)
        # Not in a re-check: what two marks saw as garbage rightly, and is named again since, has that one look.
        if scheduler.now < self.blind_until and not who.endswith(" again"):
            chance = stable_hash(self.simulation.seed, "blind")
            staged = {name for name in staged if unit(stable_hash(chance, name)) < 0.5}
        scheduler.wait(pace)
        shown = dict(self.database.commits)
        live = staged.union(*(commit.addresses for commit in shown.values() if commit.active))
        scheduler.wait(pace)
        files = {name: ObjectInfo(name, 1, at, name) for name, (at, _) in self.metaranges.items()}
        known = Known(
            named=set(shown),
            earlier=self.past.metaranges,
            ranges=(),
            kinds=dict.fromkeys(files, METARANGES),
            forgotten=self.past.forgotten,
        )
        unnamed = sort_out(
            self.folder, self.folder, SUBJECT, files, known, cutoff, self.past.since(marked_at, KEEP_UNNAMED)
        )
        return Seen(live.union(*(self.metaranges[name][1] for name in unnamed.metaranges)), shown)

    def _found(self, listed: Mapping[str, Thing], live: set[str], cutoff: datetime) -> pa.Table:
        names = sorted(listed.keys() - live)
        hashes = hash64(pa.array(names, pa.string()))
        rows = [
            {
                "address": name,
                "hash": int(value),
                "size": 1,
                "etag": listed[name].etag,
                "last_modified": listed[name].modified,
                "code": YOUNG if listed[name].modified >= cutoff else "hold" if name in self.held else None,
                "reason": "orphan",
            }
            for name, value in zip(names, hashes, strict=True)
        ]
        return pa.Table.from_pylist(rows, schema=FOUND)

    def _rows(self, pending: PendingList | None) -> pa.Table:
        return PENDING.empty_table() if pending is None else self.rows[pending.run_id]

    def _expected(self) -> Expected:
        bounds = [self.past.forgotten_at, self.state[1] and self.state[1] - timedelta(seconds=1)]
        return Expected(
            subject=SUBJECT, life="", valid_from=max(filter(None, bounds), default=None), why="older"
        )

    def _commit_or_404(self, _repository: str, name: str) -> Commit:
        if name not in self.database.commits:
            raise NotFoundError(name)
        return self.database.commits[name]

    def _leave_record(self, run_id: str, marked_at: datetime, shown: Mapping[str, Commit]) -> None:
        earlier = self.past.metaranges - shown.keys()
        rows = [(name, commit.active) for name, commit in shown.items()] + [(name, False) for name in earlier]
        columns = [
            {
                "commit_id": name,
                "metarange_id": name,
                "active": active,
                "branches": [],
                "created_at": self.metaranges[name][0],
            }
            for name, active in rows
        ]
        record: Any = SimpleNamespace(
            run_id=run_id,
            marked_at=marked_at,
            left_at=self.now(),
            pause=self.past.pause(marked_at, KEEP_UNNAMED),
        )
        self.past = replace(self.past, record=record, commits=pa.Table.from_pylist(columns, schema=COMMITS))
        self.marked |= {name for name, commit in shown.items() if commit.active}

    # The truth

    def _truth(self) -> set[str]:
        now = self.now()
        lost = [
            commit.addresses
            for name, commit in self.lost.items()
            if commit.active and (name in self.marked or now - self.metaranges[name][0] < KEEP_UNNAMED)
        ]
        active = [commit.addresses for commit in self.database.active().values()]
        return self.database.staged.union(*active, *lost, *self.making.values(), self.uploading)

    def settle(self) -> None:
        wait, grace = self.simulation.scheduler.wait, self.grace.total_seconds()
        wait(5 * DAY)
        self.blind_until, self.skew = 0.0, 0.0
        self.held.clear()
        self.mend()
        for _ in range(2):
            self.run("clean", False, 25.0, 60.0, "", 0.0)
            wait(grace + HOUR)

    def check(self) -> None:
        kept = set().union(*(addresses for at, addresses in self.metaranges.values()))
        left = self.things.keys() - self._truth() - kept
        if left:
            self.simulation.violate("left", f"garbage is left: {sorted(left)}")


@dataclass
class DecisionWorld(World):
    name = "decision"
    hours_max = 24.0 * 40
    installs = False

    def draw(self, chance: random.Random) -> list[Move]:
        days = chance.choice((6, 12, 45))
        moves = [Move(chance.random() * DAY, "upload", (number,)) for number in range(NUMBERS // 2)]
        for _ in range(chance.choice((10, 20, 40))):
            moves.append(self._move(chance, days, WRITES))
        for _ in range(chance.choice((0, 1, 2, 4, 8))):
            moves += self._harm(chance, days)
        at = 0.0
        while at < days * DAY:
            at += chance.choice((HOUR, 19 * HOUR, 20.5 * HOUR, DAY, DAY, 3 * DAY, 10 * DAY)) * (
                1 + chance.random() / 10
            )
            moves.append(Move(at, "run", self._draw_run(chance)))
        return moves

    def _move(self, chance: random.Random, days: int, verbs: Sequence[str]) -> Move:
        return Move(chance.random() * days * DAY, chance.choice(verbs), (chance.randrange(NUMBERS),))

    def _harm(self, chance: random.Random, days: int) -> list[Move]:
        move = self._move(chance, days, HARMS)
        if move.verb not in ("put back", "blind"):
            return [move]
        # Two runs about a grace apart meet it.
        first = move.at + chance.random() * 4 * HOUR
        apart = chance.choice((2 * HOUR, *(grace * HOUR + 1800 for grace in GRACES)))
        runs = [Move(at, "run", self._draw_run(chance)) for at in (first, first + apart)]
        if move.verb == "blind":
            return [move, *runs]
        before = move.at - chance.choice((HOUR, DAY, 4 * DAY)) * chance.random()
        after = move.at + chance.choice((DAY, 5 * DAY)) * chance.random()
        person = chance.choice(("mend", "mend", "forget"))
        return [Move(max(before, 0.0), "back up", move.args), move, *runs, Move(after, person, move.args)]

    def _draw_run(self, chance: random.Random) -> tuple[Any, ...]:
        return (
            chance.choice(("clean", "optimized")),
            chance.random() < 0.2,
            chance.choice((25.0, 25.0, 25.0, 48.0)),
            chance.choice((10.0, 600.0, HOUR)),
            chance.choice(STOPS),
            chance.choice((0.0, 0.0, 1.0, 30.0, 100.0)),
        )

    def build(self, simulation: Simulation) -> DecisionScene:
        return DecisionScene(simulation, timedelta(hours=simulation.chance("setting").choice(GRACES)))
