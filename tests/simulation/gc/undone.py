"""Rules about restores and purges: restored objects are the deleted ones, and purged ones may be purged.

restored    an object reported as restored exists with its bytes, has replaced nothing else, and stays for the requested
            time
purged      a purge deletes no current version, no young one, no restored one, no versions except those deleted by runs
            and older ones of the same bytes, and no copy without a run's deletion; it makes no object visible again,
            and no other process deletes a copy
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tests.simulation.buckets import Bucket, Stored
from tests.simulation.clock import DAY
from tests.simulation.history import Simulation
from tests.simulation.scheduler import Process

QUARANTINE = "/quarantine/"
CHECK_AGAIN = "check_limits"
"""The step with the comparison of live objects and deletions, and the restore of wrong ones."""
CLOCKS = 900.0
"""Maximum error of clocks in seconds."""


@dataclass
class Undone:
    simulation: Simulation  # of the history
    bucket: Bucket  # that holds the namespace
    root: str  # of the namespace in the bucket, with a trailing slash
    went: dict[tuple[str, str], bytes] = field(default_factory=dict)  # what runs deleted, by run and address
    # what runs deleted, by address: when, by the id of the version
    versions: dict[str, dict[str, float]] = field(default_factory=dict)
    # addresses that runs deleted, by the end of the URI of their folders
    swept: dict[str, set[str]] = field(default_factory=dict)
    # restored objects, with the end and the beginning of their pin
    pinned: dict[str, tuple[float, float]] = field(default_factory=dict)
    # objects of requested restores, with the end of their pin
    bringing: dict[str, float] = field(default_factory=dict)
    # days and whether it only looks, of each purge
    purges: dict[str, tuple[float, bool]] = field(default_factory=dict)
    # the run whose deletions a restore takes back, by its name
    restores: dict[str, str] = field(default_factory=dict)
    # restored objects by restore
    put_back: dict[str, set[str]] = field(default_factory=dict)
    is_live: Callable[[str], bool] = lambda _address: False  # whether an address is readable

    def on_delete(self, address: str, process: Process) -> None:
        stored = self.bucket.objects[self.root + address]
        until, since = self.pinned.get(address, (0.0, 0.0))
        if self.simulation.scheduler.now < until and since < process.begun:
            self.simulation.violate("restored", f"{process.name} deletes {address}, which was brought back")
        self.went[_first(process), address] = stored.data
        self.versions.setdefault(address, {})[stored.version] = self.simulation.scheduler.now

    def swept_by(self, folder: str, address: str) -> int:
        """Record the folder of the deleting run; returns its number of deletions."""
        swept = self.swept.setdefault(folder, set())
        swept.add(address)
        return len(swept)

    def on_put(self, address: str, data: bytes, first: bytes, process: Process) -> None:
        name = _first(process)
        if process.role == CHECK_AGAIN or name.startswith("purge"):
            if data != first:
                self.simulation.violate("restored", f"{name} puts other bytes under {address} than it had")
            return
        if not name.startswith("restore"):
            return
        if data != self.went.get((self.restores[name], address), first):
            self.simulation.violate("restored", f"{name} puts other bytes under {address} than it had")
        self.put_back.setdefault(name, set()).add(address)

    def on_replace(self, key: str) -> None:
        current = self.simulation.scheduler.current
        name = "" if current is None else _first(current.process)
        if name.startswith("restore") and key.startswith(f"{self.root}data/"):
            self.simulation.violate("restored", f"{name} replaces {key}")

    def on_purge(self, key: str, version: Stored, process: Process) -> None:
        """Check a permanent deletion: of an earlier version, or of a delete marker."""
        address, name = key.removeprefix(self.root), _first(process)
        # A purge runs a mark, which restores live objects.
        brings_back = name.startswith("purge") and version.is_marker and self.is_live(address)
        if process.role == CHECK_AGAIN or brings_back:
            self._judge_checked(key, version, name)
            return
        if name.startswith("restore"):
            if not version.is_marker:
                self.simulation.violate("purged", f"{name} takes a version of {address}")
            self._judge_uncovered(key, version, name)
            return
        if not name.startswith("purge") or not key.startswith(f"{self.root}data/"):
            self.simulation.violate("purged", f"{process.name} takes a version of {key}")
        if self.bucket.objects.get(key) is version:
            self.simulation.violate("purged", f"{name} takes the current version of {address}")
        times = self.versions.get(address, {})
        alike = {data for (_, other), data in self.went.items() if other == address}
        if not times or not (version.is_marker or version.version in times or version.data in alike):
            self.simulation.violate("purged", f"{name} takes a version of {address}, which no run deleted")
        newest = self._uncovered(key, version)
        if version.is_marker and newest is not None:
            self.simulation.violate("purged", f"{name} brings back {address}")
        deleted = times.get(version.version, max(times.values()))
        self._judge_purge(name, address, self.simulation.scheduler.now - deleted, process)

    def _judge_checked(self, key: str, marker: Stored, name: str) -> None:
        newest, address = self._uncovered(key, marker), key.removeprefix(self.root)
        if not marker.is_marker:
            self.simulation.violate("purged", f"{name} takes a version of {address}")
        if newest is not None and newest.data not in {
            data for (_, other), data in self.went.items() if other == address
        }:
            self.simulation.violate("restored", f"{name} brings another object back as {address}")

    def judge_copy(self, address: str, copy: Stored, process: Process) -> None:
        """Check whether a copy of a deleted object may be purged."""
        name = _first(process)
        if not name.startswith("purge"):
            self.simulation.violate("purged", f"{name} takes {address}, a copy of what was deleted")
        folder, _, original = address.partition(QUARANTINE)
        swept = self.swept.get(folder.rpartition("/")[2], set())
        if original not in swept and self.root + original in self.bucket.objects:
            self.simulation.violate("purged", f"{name} takes {address}, a copy of what no run deleted")
        age = (self.bucket.clock() - copy.modified).total_seconds()
        self._judge_purge(name, original, age, process)

    def brought_back(self, addresses: Collection[str], days: float, whole: bool) -> None:
        """Record a restore's report: all of a run's deletions, or the possible ones."""
        now = self.simulation.scheduler.now
        for address in sorted(addresses):
            stored = self.bucket.objects.get(self.root + address)
            if stored is not None:
                self.pinned[address] = now + days * DAY - CLOCKS, now
            elif whole:
                self.simulation.violate("restored", f"{address} was brought back, and is not there")

    def judge_count(self, name: str, count: int) -> None:
        """Check the number of restored objects in a report."""
        if count > len(self.put_back.get(name, ())):
            self.simulation.violate("figures", f"{name} says that it brought back {count}, and did not")

    def _judge_uncovered(self, key: str, marker: Stored, name: str) -> None:
        newest, address = self._uncovered(key, marker), key.removeprefix(self.root)
        if newest is None:
            return
        if self.went.get((self.restores[name], address), newest.data) != newest.data:
            self.simulation.violate("restored", f"{name} brings another object back as {address}")
        self.put_back.setdefault(name, set()).add(address)

    def _uncovered(self, key: str, marker: Stored) -> Stored | None:
        if key in self.bucket.objects:
            return None
        newest = next((each for each in self.bucket.versions(key) if each is not marker), None)
        return None if newest is None or newest.is_marker else newest

    def _judge_purge(self, name: str, address: str, age_seconds: float, process: Process) -> None:
        days, dry_run = self.purges[name]
        self.simulation.states["purged"] += 1
        if dry_run:
            self.simulation.violate("purged", f"{name} takes {address}, and was only to look")
        if age_seconds < days * DAY - CLOCKS:
            self.simulation.violate("purged", f"{name} takes {address}, deleted {age_seconds:.0f} s ago")
        until, since = self.pinned.get(address, (0.0, 0.0))
        if self.simulation.scheduler.now < until and since < process.begun:
            self.simulation.violate("restored", f"{name} takes {address}, which was brought back")


def _first(process: Process) -> str:
    return process.name.partition(" ")[0]
