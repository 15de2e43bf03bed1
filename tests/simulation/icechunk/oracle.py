"""What must never be, in Icechunk's world: told from what was written and from the refs as they are.

At each deletion: no ref, and on spec 2 no entry of the repo info, leads to the object; it is older than the minimum
age; what was released for the first time stays for the grace. A ref that is put on a snapshot beyond the grace is only
sure of it when the sweep had time to notice. An expiration takes nothing that is younger than its threshold out of
history. A dry run deletes nothing, and no run more than its limit, since nobody approves it here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.buckets import Bucket
from tests.simulation.clock import HOUR, instant
from tests.simulation.history import Simulation, Violation
from tests.simulation.icechunk.files import parent_in
from tests.simulation.icechunk.writers import ROOT, Writers

FOLDERS = ("snapshots/", "transactions/", "manifests/", "chunks/")
MIN_AGE_SECONDS = 24 * HOUR
COLLECTORS = frozenset(
    {"mark", "list_candidates", "check_limits", "bulk_delete", "verify", "save_report", "plan"}
)


@dataclass
class Oracle:
    """Watches the bucket of a repository.

    Attributes:
        simulation: of the history.
        bucket: of the repository.
        grace_seconds: of all collections.
        notice_seconds: in which a sweep notices a ref.
        thresholds: the latest that any expiration was asked for, in microseconds since 1970.
        parents: of all snapshots, as their files say (spec 1).
        released: when each snapshot ceased to be reachable for the first time.
        named_late: when a ref was put on a snapshot beyond its grace.
        forgiven: objects that went before a sweep could notice such a ref.
        most: objects that a run may delete, by the beginning of the names of its processes; None is no limit.
        swept: objects that each run deleted.
    """

    simulation: Simulation
    bucket: Bucket
    grace_seconds: float
    notice_seconds: float = 200.0
    threshold: int = 0
    writers: Writers = field(init=False)
    parents: dict[str, str | None] = field(default_factory=dict)
    released: dict[str, float] = field(default_factory=dict)
    released_again: set[str] = field(default_factory=set)
    named_late: dict[str, float] = field(default_factory=dict)
    forgiven: set[str] = field(default_factory=set)
    most: dict[str, int | None] = field(default_factory=dict)
    swept: dict[str, set[str]] = field(default_factory=dict)
    _reached: set[str] = field(default_factory=set)

    def on_put(self, key: str, data: bytes) -> None:
        """An object was written."""
        name = key.removeprefix(ROOT)
        if name.startswith("snapshots/"):
            snapshot = self.writers.snapshots[name.removeprefix("snapshots/")]
            known = snapshot.id in self.parents
            self.parents[snapshot.id] = (
                parent_in(data, snapshot) if self.writers.spec == 1 else snapshot.parent
            )
            if known and self.writers.spec == 1:
                self._check_edit(snapshot.id)
        if name.startswith(("refs/", "snapshots/")) or name == "repo":
            self._look()

    def on_delete(self, key: str) -> None:
        """An object is about to go."""
        if not key.startswith(ROOT):
            return
        name = key.removeprefix(ROOT)
        role = self._role()
        if name.startswith("refs/"):
            if role in COLLECTORS:
                self.simulation.violate("foreign", f"{name} is deleted by {role}")
            self._look_without(key)
        elif name.startswith(FOLDERS):
            self._check_object(name)
        elif name.startswith("overwritten/"):
            info = self.writers.infos[self.bucket.objects[f"{ROOT}repo"].data]
            if name.removeprefix("overwritten/") in {copy for _, copy in info.updates}:
                self.simulation.violate("live", f"{name} is deleted, and the log of the repo info names it")
        elif not name.startswith("_dredge/"):
            self.simulation.violate("foreign", f"{name} is deleted by {role}")

    def may_use(self, snapshot: str) -> bool:
        """Whether a user may count on a snapshot: a ref reaches it, or it was released lately."""
        if snapshot in self._reached:
            return True
        if snapshot not in self.released or snapshot in self.released_again:
            return False
        return self._now() - self.released[snapshot] < self.grace_seconds - 2 * HOUR

    def check_whole(self) -> None:
        """Everything that any ref leads to is there."""
        for name in sorted(self._closure(self._tips())):
            if ROOT + name not in self.bucket.objects and name not in self.forgiven:
                raise Violation("live", f"{name} is missing, and a ref leads to it")

    def check_garbage(self) -> None:
        """Nothing is there that no ref leads to."""
        if self.forgiven:
            return
        closure = self._closure(self._tips())
        for key in self.bucket.keys:
            name = key.removeprefix(ROOT)
            if key.startswith(ROOT) and name.startswith(FOLDERS) and name not in closure:
                raise Violation("garbage", f"{name} is still there, and nothing leads to it")

    def _check_limit(self, name: str) -> None:
        """A dry run deletes nothing, and nobody was asked to let a run delete more than its limit."""
        current = self.simulation.scheduler.current
        run = "" if current is None else current.process.name.partition(" ")[0]
        if run in self.most:
            swept = self.swept.setdefault(run, set())
            swept.add(name)
            most = self.most[run]
            if most is not None and len(swept) > most:
                self.simulation.violate("limit", f"{run} deletes {name}, and may delete {most} objects")

    def _check_object(self, name: str) -> None:
        self._check_limit(name)
        stored = self.bucket.objects[ROOT + name]
        age = (self.bucket.clock() - stored.modified).total_seconds()
        if age < MIN_AGE_SECONDS - 1:
            self.simulation.violate("age", f"{name} is deleted at an age of {age / HOUR:.1f} h")
        now, current = self._now(), self.simulation.scheduler.current
        # A sweep looks at the refs when it begins, and again and again while it deletes.
        noticed = now - self.notice_seconds
        if current is not None and current.process.role == "bulk_delete":
            noticed = max(noticed, current.process.begun)
        sure = [tip for tip in self._tips() if self.named_late.get(tip, float("-inf")) < noticed]
        if name in self._closure(sure):
            self.simulation.violate("live", f"{name} is deleted, and a ref leads to it")
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
        self.simulation.states[f"deleted {name.split('/')[0]}"] += 1

    def _check_edit(self, snapshot: str) -> None:
        """An expiration has given a snapshot another parent."""
        gone = self._reached - self._reach(self._tips())
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
            if self._role() == "expire" and not old:
                self.simulation.violate("expired", f"{key} is deleted, and its tip is not old enough")
            self._look()
        finally:
            self.bucket.objects[key] = stored

    def _look(self) -> None:
        """Refs or parents have changed: note what is reachable no longer, or again."""
        reached = self._reach(self._tips())
        for snapshot in self._reached - reached:
            if snapshot in self.released:
                self.released_again.add(snapshot)
            self.released[snapshot] = self._now()
        if self.writers.spec == 1:
            for tip in self._tips():
                if tip not in self._reached and tip in self.parents and self._is_late(tip):
                    self.named_late[tip] = self._now()
                    self.simulation.states["named late"] += 1
        self._reached = reached

    def _is_late(self, tip: str) -> bool:
        """Whether no grace protects a tip: it was unreachable for too long, or was never reachable and is not young."""
        if tip in self.released:
            return not self.may_use(tip)
        stored = self.bucket.objects.get(f"{ROOT}snapshots/{tip}")
        return (
            stored is None or (self.bucket.clock() - stored.modified).total_seconds() > MIN_AGE_SECONDS - HOUR
        )

    def _tips(self) -> list[str]:
        if self.writers.spec == 2:
            if f"{ROOT}repo" not in self.bucket.objects:
                return []
            return sorted(self.writers.infos[self.bucket.objects[f"{ROOT}repo"].data].snapshots)
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

    def _closure(self, tips: Iterable[str]) -> set[str]:
        found = set()
        for snapshot in self._reach(tips):
            found |= {f"snapshots/{snapshot}", f"transactions/{snapshot}"}
            for manifest in self.writers.snapshots[snapshot].manifests:
                found.add(f"manifests/{manifest}")
                found |= {f"chunks/{chunk}" for chunk in self.writers.chunks[manifest]}
        return found

    def _role(self) -> str:
        current = self.simulation.scheduler.current
        return "" if current is None else current.process.role

    def _now(self) -> float:
        return self.simulation.scheduler.now


def micros_before(simulation: Simulation, days: float) -> int:
    """The threshold of an expiration of what is older than some days."""
    return int((instant(simulation.scheduler.now).timestamp() - days * 86_400) * 1_000_000)
