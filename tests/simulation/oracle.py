"""The rules, checked at every deletion and at the end against the truth, never against the collector.

live        an object is not deleted if it was readable, or about to be staged by a server, when the sweep's last look
            began, and is readable now; nor if it has been in a branch's head for a while
young       no object younger than the minimum age is deleted, by the store's clock
kept        a run deletes no object kept by its retention policy
foreign     only data and old files of Dredge's own are deleted, nothing of another repository, and nothing at all
            if another one has the same namespace
approved    gc/answers.py
stale       no run is continued by hand after another one was completed
looks       a dry run deletes nothing
clocks      a run deletes nothing if its machine's or servers' clocks are far from the store's
restored    gc/undone.py; and with the undo way "quarantine" nothing is deleted without its copy
purged      gc/undone.py
lease, overtaken, state   gc/fences.py
promised    an object exists when a server acknowledges it (an upload, a link); and so do the objects of a revert or a
            cherry-pick, unless a sweep's last look was before the tree of the new commit was written
readable    at the end everything readable exists, with its bytes
garbage     after a run in peace only readable, young, restored or held objects are left
held        an unreadable object ends no run, nor does a commit denied only by a cache
figures     the report's figures are those of the store
secret      no file has a secret
defect      no task ends with an unforeseen error (orchestrator.py)
peace       in the end a run succeeds under all tolerated conditions (world_gc.py)
ends        every run ends by itself (history.py)
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dredge.errors import FormatError, NotFoundError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.config import OPTIMIZED
from dredge.gc.run import Run
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json
from dredge.runs.pending.store import POINTER, PendingList
from tests.simulation.buckets import Bucket, Stored
from tests.simulation.clock import DAY, START, Clock
from tests.simulation.gc.answers import Answers
from tests.simulation.gc.asked import Asked
from tests.simulation.gc.fences import Fences
from tests.simulation.gc.latecomers import Latecomers
from tests.simulation.gc.mishaps import INNER
from tests.simulation.gc.serving import Serving
from tests.simulation.gc.undone import CLOCKS, QUARANTINE, Undone
from tests.simulation.history import Simulation
from tests.simulation.orchestrator import Orchestrated
from tests.simulation.scheduler import Process
from tests.simulation.truth import SURE, Truth

GRACE_LEAST = 20 * 3600 - 2 * 330.0
"""Maximum difference of clocks."""
OWN = "_lakefs/retention/gc/"
KEEP_UNNAMED = 30 * DAY + 2 * 3600
"""Maximum time of a run's protection for a metarange without a ref."""
CLOCK = 330.0
"""Maximum error of one machine's clock."""
_PART = re.compile(r"/t\d{3}/")
_TABLE = re.compile(r"_lakefs/[0-9a-f]{64}")
_DENIED = re.compile(r"commit ([0-9a-f]{64}).*(?:does not know it|does not exist)")
"""A run's message about a missing commit."""
VERBS_NOT_PROMISED = ("stage", "copy")
_MARKED = "/mark_uncommitted/_SUCCESS.json"
_OF_SWEEPS = tuple(f"/bulk_delete/_{name}.json" for name in ("try", "SUCCESS", "INCOMPLETE"))


@dataclass
class Oracle:
    simulation: Simulation
    truth: Truth  # the readable addresses
    bucket: Bucket  # that holds the namespace
    root: str  # of the namespace in the bucket, with a trailing slash
    min_age: timedelta  # of all runs
    secrets: tuple[bytes, ...] = ()  # that no file may hold
    deleted: dict[str, float] = field(default_factory=dict)  # deleted addresses, with the time
    # those that staging records had named since before the sweep began
    in_records: set[str] = field(default_factory=set)
    first: dict[str, bytes] = field(default_factory=dict)
    by_run: dict[str, set[str]] = field(default_factory=dict)
    asked: dict[str, Asked] = field(default_factory=dict)  # what runs were asked for, by name
    shared_since: float | None = None  # since when another repository has this namespace
    clocks: Sequence[Clock] = ()  # of the servers
    clocks_set: float = float("-inf")  # when those were set last
    # staged addresses at the end of each mark
    marked: list[set[str]] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # when a run of another collector ended
    first_deleted: dict[str, float] = field(default_factory=dict)  # time of the first deletion of addresses
    parts: dict[str, bytes] = field(default_factory=dict)  # what steps wrote, by key
    serving: Serving = field(default_factory=Serving)  # what servers are about to stage
    copy_read: bool = False  # whether a copy of the records was read that fell behind
    fences: Fences = field(init=False)  # rules about leases and tries
    answers: Answers = field(init=False)  # rules about asking people
    latecomers: Latecomers = field(default_factory=Latecomers)  # what only a clean run finds
    # when a report, or what ends a mark, or begins or ends a sweep's try, was written, by key
    saved: dict[str, float] = field(default_factory=dict)
    # time of a put under the key of a deleted object
    put_by_hand: dict[str, float] = field(default_factory=dict)
    undone: Undone = field(init=False)  # rules about restores
    # when a range or metarange was written last, by its id
    trees: dict[str, float] = field(default_factory=dict)
    # when the sweep's last look began that deleted an address
    looked: dict[str, float] = field(default_factory=dict)
    owner: str = ""  # first word of the name of the run that made its server the owner

    def __post_init__(self) -> None:
        self.fences = Fences(self.simulation, self.bucket.clock)
        self.answers = Answers(self.simulation, self.fences, self.asked)
        self.fences.is_waiting = self.answers.is_waiting
        self.undone = Undone(self.simulation, self.bucket, self.root)
        self.undone.is_live = self.truth.since.__contains__

    def on_delete(self, key: str) -> None:
        """Check a deletion right before it is done."""
        address = key.removeprefix(self.root)
        if not key.startswith(self.root):
            self.simulation.violate("foreign", f"{key} is outside of the repository")
        if address.startswith(OWN):
            if QUARANTINE in address:
                self.undone.judge_copy(address, self.bucket.objects[key], self._process())
                self._judge_last_copy(address.partition(QUARANTINE)[2])
            if address.startswith(f"{OWN}rules/"):
                self.simulation.violate("foreign", f"{address} are the rules")
            return
        if address.startswith("_lakefs/"):
            self.simulation.violate("foreign", f"{address} is metadata")
        if address.startswith(INNER):
            self.simulation.violate("foreign", f"{address} is another repository's")
        process = self._process()
        self.simulation.states["deleted"] += 1
        self._judge_age(address, process)
        self._judge_life(address, process)
        self._judge_request(address, process)
        self.undone.on_delete(address, process)
        if self.truth.named_since.get(address, process.begun + 1) <= process.begun:
            self.in_records.add(address)
        self.deleted[address] = self.simulation.scheduler.now
        self.looked[address] = process.begun
        self.first_deleted.setdefault(address, self.deleted[address])
        self.by_run.setdefault(process.name.partition(" ")[0], set()).add(address)

    def on_purge(self, key: str, version: Stored) -> None:
        """Check a permanent deletion: of an earlier version, or of a delete marker."""
        self.undone.on_purge(key, version, self._process())
        if not version.is_marker:
            self._judge_last_copy(key.removeprefix(self.root))

    def acknowledged(self, verb: str, address: str) -> None:
        now = self.simulation.scheduler.now
        self.serving.promised.setdefault(address, now)
        if verb in VERBS_NOT_PROMISED or f"{self.root}{address}" in self.bucket.objects:
            return
        if self.serving.is_late(address, now):
            self.simulation.states["staged later than an object waits"] += 1
            return
        self.simulation.violate(
            "promised", f"{verb} of {address} was acknowledged, but {self._fate(address)}"
        )

    def committed(self, commit_id: str, since: float) -> None:
        """A server has made a commit: its new entries were staged all the time since the request."""
        commit = self.truth.commits[commit_id]
        before = {name for parent in commit.parents for name in self.truth.entries(parent).values()}
        for address in sorted(set(self.truth.entries(commit_id).values()) - before):
            at = self.deleted.get(address, -1.0)
            if at >= since and self._could_be_known(address, at - since):
                self.simulation.violate("promised", f"{commit_id} has {address}, but {self._fate(address)}")

    def brought_back(self, commit_id: str, since: float) -> None:
        """A server has made a commit with content of other commits; its tree was written before its hooks ran."""
        written = self.trees.get(self.truth.commits[commit_id].metarange_id, 0.0)
        if written < since:
            self.simulation.states["commit without a file of its own"] += 1
            return
        for address in sorted(set(self.truth.entries(commit_id).values())):
            if address in self.deleted and self.looked[address] > written and not self._is_there(address):
                self.simulation.violate("promised", f"{commit_id} has {address}, but {self._fate(address)}")

    def _is_there(self, address: str) -> bool:
        return self.root + address in self.bucket.objects

    def _could_be_known(self, address: str, seconds: float) -> bool:
        reads_records = not self.copy_read and any(asked.read_kv for asked in self.asked.values())
        waits = seconds < self.serving.given and any(address in staged for staged in self.marked)
        return (reads_records and address in self.in_records) or waits

    def on_put(self, key: str, data: bytes) -> None:
        self.fences.on_put(key, data)
        self.answers.on_put(key, data)
        if key.endswith((_MARKED, "/report.json", *_OF_SWEEPS)):
            self.saved[key] = self.simulation.scheduler.now
        if key.endswith(_MARKED):
            self.marked.append(self.truth.by_staging())
        elif key.endswith("/bulk_delete/_try.json"):
            self._judge_state()
        elif key == f"{self.root}{OWN}dredge/state/current.json":
            self.fences.on_state(data, self.bucket.objects[key].etag)
        elif _PART.search(key) and self.parts.setdefault(key, data) != data:
            self.simulation.violate("figures", f"{key} was replaced, and its digest is told already")
        if key.startswith(f"{self.root}data/"):
            current = self.simulation.scheduler.current
            if current is not None:
                if current.process.role == "server":
                    self.serving.put[key.removeprefix(self.root)] = self.simulation.scheduler.now
                first = self.first.get(key, data)
                self.undone.on_put(key.removeprefix(self.root), data, first, current.process)
                self.latecomers.on_put(key.removeprefix(self.root), current.process.role, self.bucket.clock())
            self.first[key] = data
        elif key == f"{self.root}{OWN}dredge/owner.json":
            self.owner = self._process().name.partition(" ")[0]
        elif _TABLE.fullmatch(key.removeprefix(self.root)):
            self.trees[key.rpartition("/")[2]] = self.simulation.scheduler.now
        elif key == f"{self.root}{OWN}rules/config.json":
            self.truth.rules_changed(data)

    def note_twin(self, present: bool) -> None:
        """Another repository has the same namespace now, or has it no longer."""
        self.shared_since = self.simulation.scheduler.now if present else None

    def note_copy(self) -> None:
        """From now on runs may read records of a copy."""
        self.copy_read = True

    def note_other(self) -> None:
        self.others.append(self.simulation.scheduler.now)

    def check_readable(self) -> None:
        for address in sorted(self.truth.readable()):
            stored = self.bucket.objects.get(self.root + address)
            if stored is None:
                # A deletion is judged at its time. The object was unreferenced: an expired commit was reused since, or
                # an unreferenced old address was staged.
                if address not in self.deleted:
                    self.simulation.violate("readable", f"{address} is readable, but {self._fate(address)}")
                self.simulation.states["came back after it was deleted"] += 1
            elif stored.data != self.first.get(self.root + address, stored.data):
                self.simulation.violate("readable", f"{address} has other bytes than were written")

    def check_garbage(self, run: Run) -> None:
        """Check that a complete run in peace left no unreported garbage."""
        rows = _settled(run)
        named = {row["address"] for row in rows if row["outcome"] != ledger.DELETED}
        if self.asked["rest"].waits:
            named |= _waiting(run)
        asked = self.asked["rest"]
        kept = self.truth.kept(asked.policy) if asked.policy is not None else set()
        if run.plan.mode == OPTIMIZED:
            kept |= self.latecomers.addresses
        kept |= self.truth.unnamed([name for name, at in self.trees.items() if at > self._now - KEEP_UNNAMED])
        if self.truth.rules[-1][1] is None:  # then every table in the bucket counts
            kept |= self.truth.given_up
        if asked.read_kv:  # then every address in a record counts as live
            kept |= self.truth.by_all_tokens()
        now = self.simulation.scheduler.now
        keep, cutoff = self.truth.readable(sure=-SURE) | named | kept, run.plan.cutoff
        for key in self.bucket.keys:
            address = key.removeprefix(self.root)
            if (
                not address.startswith("data/")
                or address in keep
                or self.undone.bringing.get(address, 0.0) > now
            ):
                continue
            if self.bucket.objects[key].modified < cutoff:
                self.simulation.violate(
                    "garbage", f"{address} is garbage, and run {run.plan.run_id} does not name it"
                )
        self.simulation.states["held in peace"] += len(named)

    def check_figures(self, run: Run, ended: Orchestrated) -> None:
        self.answers.check_told(run, ended)
        summary = run.folder.read_summary(ledger.STEP)
        if summary is None or run.plan.dry_run:
            return
        try:
            rows = _settled(run)
        except FormatError as error:
            self.simulation.violate("figures", f"the ledger is not what was written: {error}")
        gone = [row for row in rows if row["outcome"] == ledger.DELETED]
        is_late = self._is_swept_after_report(ended.folder)
        until = self.simulation.scheduler.now if is_late else ended.ended_at
        for row in gone:
            if self.first_deleted.get(row["address"], float("inf")) > until:
                self.simulation.violate("figures", f"the ledger says deleted, but {row['address']} was not")
        try:
            counts = run.folder.read_json("report.json")["counts"]
        except NotFoundError:
            self.simulation.states["run without a report"] += 1
            return
        if is_late:
            self.simulation.states["swept again after the report"] += 1
        elif "deleted_objects" not in counts:
            self.simulation.states["report before the sweep was settled"] += 1
        elif counts["deleted_objects"] != len(gone):
            self.simulation.violate(
                "figures", f"deleted {counts['deleted_objects']}, the ledger has {len(gone)}"
            )

    def _is_swept_after_report(self, folder: str) -> bool:
        report = self.saved.get(f"{folder}/report.json")
        return report is not None and any(
            self.saved.get(folder + each, report) > report for each in _OF_SWEEPS
        )

    def check_ends(self, runs: Iterable[Orchestrated]) -> None:
        for run in runs:
            is_denied = any(text.startswith("subtract: ConfigError") for text in run.errors)
            if is_denied and not self.simulation.doors.weather.struck["unreadable object"]:
                self.simulation.violate(
                    "held", f"objects that cannot be looked at end {run.name}: {run.errors}"
                )
            if any("the ledger has" in text for text in run.errors):
                self.simulation.violate("figures", f"objects were passed over: {run.errors}")
            denied = [found[1] for text in run.errors if (found := _DENIED.search(text))]
            if any(commit in self.truth.commits for commit in denied) and not self.truth.was_put_back:
                self.simulation.violate("held", f"a commit that is there ends {run.name}: {run.errors}")

    def check_secrets(self) -> None:
        for key, stored in self.bucket.objects.items():
            for secret in self.secrets:
                if secret in stored.data:
                    self.simulation.violate("secret", f"{key} holds a secret")

    def _judge_last_copy(self, address: str) -> None:
        process, since = self._process(), self.truth.since.get(address)
        if since is None or since > process.begun or self._is_there(address):
            return
        if address in self.truth.readable(process.begun):
            self.simulation.violate("purged", f"{process.name} takes the only copy of {address}")

    def _judge_age(self, address: str, process: Process) -> None:
        stored = self.bucket.objects[self.root + address]
        age = self.bucket.clock() - stored.modified
        if age < self.min_age and not self._is_put_meanwhile(address, process):
            self.simulation.violate("young", f"{process.name} deletes {address}, which is only {age} old")

    def _is_put_meanwhile(self, address: str, process: Process) -> bool:
        asked, put = self.asked.get(process.name.partition(" ")[0]), self.put_by_hand.get(address)
        return asked is not None and put is not None and asked.undo != "quarantine" and asked.begun < put

    def _judge_life(self, address: str, process: Process) -> None:
        now = self.simulation.scheduler.now
        if self.owner.startswith("clone") and process.name.startswith("clone"):
            # Entries staged only elsewhere are in no file visible to the owner.
            named = {name for commit in self.truth.commits for name in self.truth.entries(commit).values()}
            if address not in named:
                self.simulation.states["deleted by an owner that does not know it"] += 1
                return
        readable = self.truth.readable(process.begun)
        since = self.truth.since.get(address)
        looked = self._looked(address, process)
        if address in readable and since is not None and self.serving.since(address, since) <= looked:
            self.simulation.violate(
                "live", f"{process.name} deletes {address}, readable since {since - now:.0f} s"
            )
        head = self.truth.head_since.get(address)
        # A request on its way when the head moved cannot be stopped, however late it is.
        notices_after = self.fences.seconds_to_notice()
        if head is not None and (self.fences.asked() - head > notices_after or self.fences.is_late(head)):
            self.simulation.violate(
                "live", f"{process.name} deletes {address}, in a head since {head - now:.0f} s"
            )

    def _looked(self, address: str, process: Process) -> float:
        asked = self.asked.get(process.name.partition(" ")[0])
        if (
            asked is None
            or (asked.read_kv and not self.copy_read)
            or not self.truth.is_unseen(address, partial(self._is_like, address))
        ):
            return process.begun
        return asked.run().began("mark_uncommitted", process.begun)

    def _is_like(self, address: str, entry: str) -> bool:
        ours, other = (self.bucket.objects.get(self.root + name) for name in (address, entry))
        return ours is None or other is None or ours.data == other.data

    def _judge_request(self, address: str, process: Process) -> None:
        name, _, _ = process.name.partition(" ")
        asked = self.asked.get(name)
        if asked is None:
            return
        run = asked.run()
        folder = run.folder
        if asked.dry_run:
            self.simulation.violate("looks", f"{process.name} deletes {address}, and was only to look")
        self._judge_clocks(address, process, asked, run)
        plan = json.loads(self.bucket.objects[f"{folder}/plan.json"].data)
        if asked.waits:
            planned = datetime.fromisoformat(plan["created_at"])
            early = (planned - START).total_seconds() - GRACE_LEAST
            others = [item for item in self.asked.values() if item is not asked and item.begun <= early]
            if not others:
                self.simulation.violate(
                    "wait", f"{process.name} deletes {address}, and no other run can have found it"
                )
        is_young = self.bucket.objects[self.root + address].modified >= datetime.fromisoformat(plan["cutoff"])
        if is_young and not self._is_put_meanwhile(address, process):
            self.simulation.violate("young", f"{process.name} deletes {address}, as old as its cutoff")
        swept = self.undone.swept_by(folder.rpartition("/")[2], address)
        self.answers.judge(address, process, asked, run, swept)
        if asked.undo == "quarantine":
            copy = self.bucket.objects.get(folder + QUARANTINE + address)
            if copy is None or copy.data != self.bucket.objects[self.root + address].data:
                self.simulation.violate("restored", f"{process.name} deletes {address} without a copy")
        self.fences.on_delete(folder, address)
        self._judge_others(address, process, asked, run)
        quiet = self.truth.moved < process.begun
        if asked.policy is not None and quiet and address in self.truth.kept(asked.policy):
            self.simulation.violate("kept", f"{process.name} deletes {address}, which its policy keeps")
        reads_records = asked.read_kv and not self.copy_read
        if reads_records and quiet and address in self.truth.by_all_tokens():
            self.simulation.violate("live", f"{process.name} deletes {address}, which a staging record names")

    def _judge_others(self, address: str, process: Process, asked: Asked, run: Orchestrated) -> None:
        since = self.shared_since
        if since is not None and (since < process.begun or self.fences.can_know(process, since)):
            self.simulation.violate("foreign", f"{address} is deleted, and another repository may use it")
        guarded = run.began("check_limits", process.begun)
        planned = max(
            asked.begun, run.began("plan", guarded)
        )  # a run that waited for its turn was planned late
        if any(planned < at < guarded for at in self.others):
            self.simulation.violate("foreign", f"{address} is deleted, and another collector is at work")

    def _judge_clocks(self, address: str, process: Process, asked: Asked, run: Orchestrated) -> None:
        store = self.bucket.clock.seconds()
        ours = 0.0 if run.clock is None else abs(run.clock.seconds() - store)
        theirs = min((abs(clock.seconds() - store) for clock in self.clocks), default=0.0)
        if ours > CLOCK or (theirs > CLOCKS and self.clocks_set < asked.begun):
            words = f"with clocks that are off by {max(ours, theirs):.0f} s"
            self.simulation.violate("clocks", f"{process.name} deletes {address}, {words}")

    def _judge_state(self) -> None:
        process = self._process()
        asked = self.asked.get(process.name.partition(" ")[0])
        if asked is None or not asked.run().by_person:
            return
        for other in self.asked.values():
            run = other.run()
            if _is_complete(run) and asked.begun < run.ended_at < process.begun:
                words = f"{process.name} goes on although {run.name} was completed since it was planned"
                self.simulation.violate("stale", words)

    @property
    def _now(self) -> float:
        return self.simulation.scheduler.now

    def _fate(self, address: str) -> str:
        if address not in self.deleted:
            return "it was never there"
        return f"it was deleted {self.simulation.scheduler.now - self.deleted[address]:.0f} s ago"

    def _process(self) -> Process:
        return self.simulation.scheduler.process


def _is_complete(run: Orchestrated) -> bool:
    return run.outcome == "success" and not run.config["dry_run"] and "window_begin" not in run.config


def _waiting(run: Run) -> set[str]:
    listed = from_json(PendingList, json.loads(run.state.get(POINTER)))
    tables = RunFolder(run.state, "the list").read_parts(listed.parts.values(), ["address"])
    return {address for table in tables for address in table["address"].to_pylist()}


def _settled(run: Run) -> list[dict[str, Any]]:
    summary = run.folder.read_summary(ledger.STEP)
    if summary is None:
        raise NotFoundError("the run did not come to deleting")
    parts = BulkDeleteOutput.of(summary).settled
    return [row for part in parts for row in run.folder.read_part(part).to_pylist()]
