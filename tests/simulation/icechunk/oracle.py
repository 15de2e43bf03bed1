"""The rules of Icechunk's world, checked on written files and the present refs.

At each deletion: no ref, and on spec 2 no entry of the repo info, leads to the object; it is older than the minimum
age; a newly released snapshot stays for the grace. A ref set on a snapshot after its grace is only protected if the
sweep had time to notice it. An expiration releases no snapshot younger than its threshold, makes none visible again,
and deletes no moved ref. A dry run deletes nothing, and no run more than its limit, because there are no approvals
here. References are deleted before their targets. Restored objects stay for the requested time, and with the undo way
"quarantine" the copy exists before the deletion.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dredge.icechunk.ids import is_id
from tests.simulation.buckets import Bucket
from tests.simulation.clock import HOUR, instant
from tests.simulation.history import Simulation, Violation
from tests.simulation.icechunk.files import parent_in
from tests.simulation.icechunk.own_files import OWN, RUNS, OwnFiles
from tests.simulation.icechunk.writers import ROOT, Writers
from tests.simulation.scheduler import Process

FOLDERS = ("snapshots/", "transactions/", "manifests/", "chunks/")
MIN_AGE_SECONDS = 24 * HOUR
CALLS_OF_REFS = 7
"""Maximum number of calls to read all refs, and delete one."""
COLLECTORS = frozenset(
    {"mark", "list_candidates", "check_limits", "bulk_delete", "verify", "save_report", "plan"}
)


@dataclass
class Oracle:
    simulation: Simulation  # of the history
    bucket: Bucket  # of the repository
    grace_seconds: float  # of all collections
    notice_seconds: float = 200.0  # in which a sweep notices a ref
    threshold: int = 0
    writers: Writers = field(init=False)
    # of all snapshots, as their files say (spec 1)
    parents: dict[str, str | None] = field(default_factory=dict)
    # when each snapshot ceased to be reachable for the first time
    released: dict[str, float] = field(default_factory=dict)
    released_again: set[str] = field(default_factory=set)
    # when a ref was put on a snapshot beyond its grace
    named_late: dict[str, float] = field(default_factory=dict)
    # objects deleted before a sweep could notice such a ref
    forgiven: set[str] = field(default_factory=set)
    # objects that a run may delete, by the beginning of the names of its processes; None is no limit
    most: dict[str, int | None] = field(default_factory=dict)
    swept: dict[str, set[str]] = field(default_factory=dict)  # objects that each run deleted
    # when snapshots of sessions that took longer than the margins were named
    beyond: dict[str, float] = field(default_factory=dict)
    # time at which the log first listed much older copies of the repo info
    copies_named: dict[str, float] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)  # snapshots that refs lead to
    read_by_a_run: set[str] = field(default_factory=set)  # snapshots that a complete run has read
    back: dict[str, float] = field(default_factory=dict)  # end of the pin of restored objects
    may_be_back: set[str] = field(default_factory=set)  # objects maybe restored
    # further pinned objects: all possible deletions of a run without a ledger
    may_be_pinned: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)  # keys that the store held for a while
    # deleted snapshots, not written again
    gone: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)  # keys of files with wrong content
    # snapshots reached until refs were restored to an earlier day, or committed by a writer of an old release after
    # an upgrade. They are live until a person releases them
    lost: set[str] = field(default_factory=set)
    # whether runs keep for weeks what they lost sight of, and any snapshot that nothing names
    keeps_lost: bool = False
    # whether refs were restored, or an old writer was active, without an acceptance
    was_put_back: bool = False
    own: OwnFiles = field(init=False)  # watches Dredge's own files
    _at_plan: dict[str, set[str]] = field(default_factory=dict)
    _expiring: dict[str, Process] = field(default_factory=dict)
    _moved: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.own = OwnFiles(self.simulation)

    def on_put(self, key: str, data: bytes) -> None:
        name = key.removeprefix(ROOT)
        if name.startswith(OWN):
            if name.startswith(f"{OWN}deletions/") and name.endswith(".json"):
                self.own.note_sweep(name)
            self.own.on_put(name, data)
            if name.startswith(RUNS) and name.endswith("/plan.json"):
                self._at_plan.setdefault(name.split("/")[2], set(self.reached))
            return
        if name.startswith("refs/"):
            self._moved[key] = {each.name: each.calls for each in self._expiring.values()}
        if name.startswith("snapshots/"):
            snapshot = self.writers.snapshots[name.removeprefix("snapshots/")]
            known = snapshot.id in self.parents
            if name in self.gone and self._role() == "expire":
                self.simulation.violate("expired", f"{name} was gone, and an expiration has written it again")
            self.parents[snapshot.id] = (
                parent_in(data, snapshot) if self.writers.spec == 1 else snapshot.parent
            )
            self.gone.discard(name)
            if known and self.writers.spec == 1:
                self._check_edit(snapshot.id)
        if name.startswith(("refs/", "snapshots/")) or name == "repo":
            self._look()

    def on_delete(self, key: str) -> None:
        if not key.startswith(ROOT):
            return
        name = key.removeprefix(ROOT)
        role = self._role()
        if name.startswith(OWN):
            self.own.on_delete(name)
        elif name.startswith("refs/"):
            if role in COLLECTORS:
                self.simulation.violate("foreign", f"{name} is deleted by {role}")
            self._look_without(key)
        elif name.startswith(FOLDERS):
            self._check_object(name)
        elif name.startswith("overwritten/"):
            info = self.writers.infos[self.bucket.objects[f"{ROOT}repo"].data]
            copy = name.removeprefix("overwritten/")
            sure = self.copies_named.get(copy, float("-inf")) < self._begun()
            if sure and copy in {copy for _, copy in info.updates}:
                self.simulation.violate("live", f"{name} is deleted, and the log of the repo info names it")
        else:
            self.simulation.violate("foreign", f"{name} is deleted by {role}")

    def may_use(self, snapshot: str) -> bool:
        """Whether a snapshot is usable: a ref reaches it, or it was released lately."""
        if snapshot in self.reached:
            return True
        if snapshot not in self.released or snapshot in self.released_again:
            return False
        return self._now() - self.released[snapshot] < self.grace_seconds - 2 * HOUR

    def unneeded(self) -> list[str]:
        closure = self._closure(self._tips())
        return [
            key
            for key in self.bucket.keys
            if key.startswith(tuple(ROOT + folder for folder in FOLDERS))
            and key.removeprefix(ROOT) not in closure
        ]

    def has_torn_ones(self) -> bool:
        """Whether an unreachable snapshot has missing references: its session began on a snapshot deleted after a ref
        had been set on it and removed again.
        """
        reached = self._closure(self._tips())
        there = [each for each in self.writers.snapshots if f"{ROOT}snapshots/{each}" in self.bucket.objects]
        loose = [each for each in there if f"snapshots/{each}" not in reached]
        return any(
            ROOT + name not in self.bucket.objects for each in loose for name in self._objects_of(each)
        )

    def check_whole(self) -> None:
        for name in sorted(self._closure(self._tips()) | self._objects_lost()):
            if ROOT + name not in self.bucket.objects and name not in self.forgiven:
                raise Violation("live", f"{name} is missing, and a ref leads to it")

    def check_garbage(self, listed: bool = True) -> None:
        if self.forgiven:
            return
        back = self.back.keys() | self.may_be_back | self.may_be_pinned
        closure = self._closure(self._tips()) | self._needed_by(back) | self._objects_lost()
        closure |= self._reached_by_old_refs()
        if self.keeps_lost:
            there = [each for each in self.parents if f"{ROOT}snapshots/{each}" in self.bucket.objects]
            closure |= self._closure(there)
        deleted = {name.partition("/")[2] for names in self.swept.values() for name in names}
        named = {chunk for name in deleted for chunk in self.writers.chunks.get(name, ())}
        named -= {chunk for virtual in self.writers.virtual.values() for chunk in virtual}
        for key in self.bucket.keys:
            name = key.removeprefix(ROOT)
            if not key.startswith(ROOT) or not name.startswith(FOLDERS) or name in closure:
                continue
            folder, _, found = name.partition("/")
            unseen = folder == "chunks" and not listed and (found not in named or key in self.held)
            if is_id(found) and not unseen:
                raise Violation("garbage", f"{name} is still there, and nothing leads to it")

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Refs are restored to an earlier day within the block."""
        self.was_put_back = True
        before = self._reach(self._tips())
        yield
        self._look()
        self.lost |= before - self.reached

    def begun(self, process: Process) -> None:
        self.own.processes[process.name] = process
        if process.role == "expire":
            self._expiring[process.name] = process

    def note_success(self, run_id: str) -> None:
        """A run is complete, and has read the live objects at its planning."""
        self.read_by_a_run |= self._at_plan.get(run_id, set()) & self.reached

    def named_beyond(self, snapshot: str) -> None:
        """A session longer than the margins has committed; losses before its commit were unavoidable."""
        self.beyond[snapshot] = self._now()
        self._forgive_absent([snapshot])

    def brought_back(self, names: Collection[str], until: float) -> None:
        """A restore has restored objects, as far as copies existed, with their references."""
        for name in self._needed_by([name for name in names if ROOT + name in self.bucket.objects]):
            if ROOT + name in self.bucket.objects:
                self.back[name] = max(until, self.back.get(name, until))

    def _needed_by(self, names: Collection[str]) -> set[str]:
        found = set(names)
        for name in names:
            folder, _, each = name.partition("/")
            if folder == "manifests":
                found |= self._chunks_of(each)
            elif folder == "snapshots" and each in self.parents:
                node: str | None = each
                while node is not None:
                    found |= self._objects_of(node)
                    # In spec 2 the repo info has the parents; a snapshot outside of it cannot be reached again.
                    node = self.parents.get(node) if self.writers.spec == 1 else None
        return found

    def _forgive_absent(self, snapshots: Iterable[str]) -> None:
        for snapshot in snapshots:
            self.forgiven |= {
                name for name in self._objects_of(snapshot) if ROOT + name not in self.bucket.objects
            }

    def _check_limit(self, name: str) -> None:
        run = self.simulation.scheduler.process.name.partition(" ")[0]
        swept = self.swept.setdefault(run, set())
        swept.add(name)
        if run in self.most:
            most = self.most[run]
            if most is not None and len(swept) > most:
                self.simulation.violate("limit", f"{run} deletes {name}, and may delete {most} objects")

    def _check_object(self, name: str) -> None:
        if not is_id(name.partition("/")[2]):
            self.simulation.violate("foreign", f"{name} is deleted, and is nothing of Icechunk's")
        self._check_limit(name)
        self._check_order(name)
        self._check_undo(name)
        stored = self.bucket.objects[ROOT + name]
        age = (self.bucket.clock() - stored.modified).total_seconds()
        if age < MIN_AGE_SECONDS - 1:
            self.simulation.violate("age", f"{name} is deleted at an age of {age / HOUR:.1f} h")
        now, process = self._now(), self.simulation.scheduler.process
        # A sweep looks at the refs when it begins, and again and again while it deletes.
        noticed = now - self.notice_seconds
        if process.role == "bulk_delete":
            noticed = max(noticed, process.begun)
        sure = [tip for tip in self._tips() if self.named_late.get(tip, float("-inf")) < noticed]
        beyond = {snapshot for snapshot, when in self.beyond.items() if when >= self._begun()}
        if name in self._closure(sure, beyond):
            self.simulation.violate("live", f"{name} is deleted, and a ref leads to it")
        if name in self._objects_lost():
            self.simulation.violate("lost", f"{name} is deleted, and a commit needs it that refs led to")
        if name in self._closure(self._tips()):
            self.forgiven.add(name)
        if self.writers.spec == 1 and self.grace_seconds:
            held = [
                snapshot
                for snapshot, when in self.released.items()
                if snapshot not in self.released_again and now - when < self.grace_seconds - 60
            ]
            if name in self._closure(held):
                self.simulation.violate(
                    "grace", f"{name} is deleted, and a snapshot needs it that was just released"
                )
        if name.startswith("snapshots/"):
            self.gone.add(name)
        self.simulation.states[f"deleted {name.split('/')[0]}"] += 1

    def _check_order(self, name: str) -> None:
        process = self.simulation.scheduler.process
        run = self.own.run_of(process.name)
        if run is None or process.role != "bulk_delete":
            return
        self.own.check_sweep(process)
        folder, _, found = name.partition("/")
        by: Iterable[str] = ()
        if folder == "chunks":
            by = (f"manifests/{each}" for each, chunks in self.writers.chunks.items() if found in chunks)
        elif folder == "manifests":
            by = (
                f"snapshots/{each.id}" for each in self.writers.snapshots.values() if found in each.manifests
            )
        closure: set[str] | None = None
        for each in by:
            stored = self.bucket.objects.get(ROOT + each)
            if stored is None or each in self.forgiven or each in self.may_be_back:
                continue
            if ROOT + each in self.damaged:  # it does not name it now
                continue
            age = instant(run.planned).timestamp() + self.bucket.clock.offset - stored.modified.timestamp()
            closure = self._closure(self._tips()) if closure is None else closure
            if age > MIN_AGE_SECONDS + 60 and each not in closure:
                self.simulation.violate("order", f"{name} is deleted before {each}, which names it")

    def _check_undo(self, name: str) -> None:
        if self.back.get(name, 0.0) > self._now():
            self.simulation.violate("restored", f"{name} was brought back to stay, and is deleted")
        run = self.own.run_of(self.simulation.scheduler.process.name)
        if run is not None and run.plan["undo"]["way"] == "quarantine":
            copy = f"{ROOT}{RUNS}{run.plan['run_id']}/quarantine/{name}"
            if copy not in self.bucket.objects:
                self.simulation.violate("undo", f"{name} is deleted before it was copied")

    def _check_edit(self, snapshot: str) -> None:
        reached = self._reach(self._tips())
        if self._role() == "expire" and reached - self.reached:
            back = min(reached - self.reached)
            self.simulation.violate("expired", f"{back} is back in history by an edit of {snapshot}")
        gone = self.reached - reached
        young = [name for name in gone if self.writers.snapshots[name].flushed_at >= self.threshold]
        if young:
            self.simulation.violate(
                "expired", f"{min(young)} is out of history by an edit of {snapshot}, and is not old enough"
            )
        self.simulation.states["edited"] += 1

    def _look_without(self, key: str) -> None:
        stored = self.bucket.objects.pop(key)
        try:
            tip = json.loads(stored.data)["snapshot"] if stored.data else ""
            old = tip and self.writers.snapshots[tip].flushed_at < self.threshold
            current = self.simulation.scheduler.current
            moved = self._moved.get(key, {}) if current is not None else {}
            noticed = (
                current is None or current.process.calls - moved.get(current.process.name, 0) > CALLS_OF_REFS
            )
            if self._role() == "expire" and not old and noticed:
                self.simulation.violate("expired", f"{key} is deleted, and its tip is not old enough")
            self._look()
        finally:
            self.bucket.objects[key] = stored

    def _look(self) -> None:
        reached = self._reach(self._tips())
        for snapshot in self.reached - reached:
            if snapshot in self.released:
                self.released_again.add(snapshot)
            self.released[snapshot] = self._now()
        for tip in self._tips():
            if tip not in self.reached and tip in self.parents and self._is_late(tip):
                self.named_late[tip] = self._now()
                self.simulation.states["named late"] += 1
                self._forgive_absent(self._reach([tip]) - self.reached)
        self._look_at_virtual(reached - self.reached)
        self.reached = reached

    def _look_at_virtual(self, new: Collection[str]) -> None:
        readable = {
            name for each in self.reached if each not in self.named_late for name in self._objects_of(each)
        }
        for snapshot in new:
            virtual = {
                f"chunks/{chunk}"
                for manifest in self.writers.snapshots[snapshot].manifests
                for chunk in self.writers.virtual.get(manifest, ())
            }
            if snapshot not in self.released and not virtual <= readable:
                self.simulation.states["virtual chunks named late"] += 1
                self.named_beyond(snapshot)

    def _is_late(self, tip: str) -> bool:
        if tip in self.released:
            return not self.may_use(tip)
        stored = self.bucket.objects.get(f"{ROOT}snapshots/{tip}")
        return (
            stored is None or (self.bucket.clock() - stored.modified).total_seconds() > MIN_AGE_SECONDS - HOUR
        )

    def _reached_by_old_refs(self) -> set[str]:
        found: set[str] = set()
        for node in self._tips_of_refs() if self.writers.spec == 2 else ():
            at: str | None = node
            while at is not None:
                found |= self._objects_of(at)
                at = self.parents.get(at)
        return found

    def _tips(self) -> list[str]:
        if self.writers.spec == 2:
            if f"{ROOT}repo" not in self.bucket.objects:
                return []
            return sorted(self.writers.infos[self.bucket.objects[f"{ROOT}repo"].data].snapshots)
        return self._tips_of_refs()

    def _tips_of_refs(self) -> list[str]:
        found = []
        for key, stored in self.bucket.objects.items():
            if (
                key.startswith(f"{ROOT}refs/")
                and key.endswith("/ref.json")
                and f"{key}.deleted" not in self.bucket.objects
            ):
                found.append(json.loads(stored.data)["snapshot"])
        return found

    def _reach(self, tips: Iterable[str]) -> set[str]:
        if self.writers.spec == 2:
            return set(tips)
        found: set[str] = set()
        for tip in tips:
            node: str | None = tip
            while node is not None and node not in found:
                found.add(node)
                node = self.parents.get(node)
        return found

    def _closure(self, tips: Iterable[str], without: Collection[str] = ()) -> set[str]:
        found = set()
        for snapshot in self._reach(tips):
            if not without or not any(each in without for each in self._line(snapshot)):
                found |= self._objects_of(snapshot)
        return found

    def _objects_lost(self) -> set[str]:
        if not self.keeps_lost:
            return set()
        return {name for each in self.lost - self.reached for name in self._objects_of(each)} - self.forgiven

    def _line(self, snapshot: str) -> Iterable[str]:
        node: str | None = snapshot
        while node is not None:
            yield node
            node = self.writers.snapshots[node].parent

    def _objects_of(self, snapshot: str) -> set[str]:
        found = {f"snapshots/{snapshot}", f"transactions/{snapshot}"}
        for manifest in self.writers.snapshots[snapshot].manifests:
            found.add(f"manifests/{manifest}")
            found |= self._chunks_of(manifest)
        return found

    def _chunks_of(self, manifest: str) -> set[str]:
        named = (*self.writers.chunks.get(manifest, ()), *self.writers.virtual.get(manifest, ()))
        return {f"chunks/{chunk}" for chunk in named}

    def _begun(self) -> float:
        return self.simulation.scheduler.process.begun

    def _role(self) -> str:
        return self.simulation.scheduler.process.role

    def _now(self) -> float:
        return self.simulation.scheduler.now


def micros_before(simulation: Simulation, days: float) -> int:
    return int((instant(simulation.scheduler.now).timestamp() - days * 86_400) * 1_000_000)
