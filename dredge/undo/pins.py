"""Pins: restored objects are held from the next runs until a given end. Their slices are listed again.

    <state>/pins/<id>/hashes-….u64    hashes of the addresses, written before the restore
    <state>/pins/<id>.json            the record; with it the pin is in force

An unreadable pin stops a run, as its objects are unknown. Two addresses with the same hash hold each other, and so keep
garbage. The end of a complete run removes pins a week after their end (`save_report.clean_up`).

An optimized run skips slices covered by earlier runs, and restored objects are in no pending list: they were deleted.
So the pin of a restore notes their slices, and runs list them until a complete run saw all restored objects older than
its cutoff: the cutoff is after the end of the restore, or after the end of the pin of a killed restore. From then on
garbage among them is in the pending list. A limited number of time intervals describes the slices; further slices may
be listed.

At the end of a complete run old folders of runs and ended pins are removed. A run removes a folder only if the folder's
plan proves that it belongs to this repository. Folders with copies of deleted objects stay until a purge, and so do
folders with a new file. The plan is removed last, so the next run finds the rest of an interrupted removal.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.runs.cleanup import ListedFiles
from dredge.runs.clock import Coverage
from dredge.runs.folder import RunFolder, is_run_id, read_json, run_ids
from dredge.runs.payload import from_file, to_json
from dredge.runs.run import PlannedRun
from dredge.runs.tries import change_file
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map
from dredge.undo.ways import QUARANTINE_FOLDER
from dredge.xid import descending_time

PINS = "pins"
PINNED = "pinned"
_AT_ONCE = 16


class Pin(Struct, frozen=True, kw_only=True):
    """Objects held until an end."""

    pin_id: str  # its id, the id of the restore
    run_id: str
    reason: str
    created_at: datetime
    until: datetime  # its end, by the store's clock
    objects: int
    size_bytes: int
    sets: tuple[LocatedSet, ...]
    slices: Coverage  # of the objects, and possibly more
    finished_at: datetime | None = None  # end of the restore, by the store's clock; None when unknown

    @property
    def text(self) -> str:
        """In words: "500 objects of run … until 2026-12-31 00:00 UTC: …"."""
        return (
            f"{self.objects:,} objects that run {self.run_id} deleted, until {self.until:%Y-%m-%d %H:%M} UTC:"
            f" {self.reason}"
        )

    def has(self, hashed: int) -> bool:
        """Whether it holds an address, by its hash."""
        (found,) = in_any(self.sets, [np.array([hashed], np.uint64)])
        return bool(found[0])


def pin_folder(state_uri: str, pin_id: str, options: StorageOptions | None = None) -> RunFolder:
    """The folder with the hashes of a pin, below the folder of lease and index."""
    return RunFolder(open_writer(f"{state_uri}/{PINS}/{pin_id}", options), pin_id)


def write_pin(state: ObjectWriter, pin: Pin) -> None:
    """Put a pin in force; its hashes are already written."""
    RunFolder(state, pin.pin_id).write_json(f"{PINS}/{pin.pin_id}.json", to_json(pin))


def read_pins(state: ObjectReader) -> list[Pin]:
    """Read every pin of a repository, including ended pins. Raises FormatError: an unreadable pin, so its objects are
    unknown."""
    found = ordered_map(lambda name: _read(state, name), _records(state), _AT_ONCE)
    return [pin for pin in found if pin is not None]


def _read(state: ObjectReader, name: str) -> Pin | None:
    try:
        return from_file(Pin, read_json(state, name))
    except NotFoundError as error:
        # The end of another run may remove ended pins between the listing and this reading.
        if name in _records(state):
            raise FormatError(f"{state.uri}/{name} is listed, but missing: {error}") from None
        return None
    except FormatError as error:
        raise FormatError(
            f"{state.uri}/{name} cannot be read as a pin ({error}), so the restored objects it protects are unknown."
            " Nothing was deleted. Repeat the restore, then remove this file."
        ) from None


def names_of_pins(state: ObjectReader) -> frozenset[str]:
    """The names of all pins, by one listing, to notice new pins."""
    return frozenset(_records(state))


def names_of(pins: Iterable[Pin]) -> frozenset[str]:
    """The names of some pins, as `names_of_pins` gives them."""
    return frozenset(f"{PINS}/{pin.pin_id}.json" for pin in pins)


def _records(state: ObjectReader) -> list[str]:
    return [item.key for item in state.list_level(f"{PINS}/").objects if item.key.endswith(".json")]


def active_pins(state: ObjectReader, now: datetime) -> list[Pin]:
    """Read the pins in force."""
    return [pin for pin in read_pins(state) if pin.until > now]


def sets_of(pins: Sequence[Pin]) -> tuple[LocatedSet, ...]:
    """The hashes held by pins."""
    return tuple(item for pin in pins for item in pin.sets)


def end_pin(state: ObjectWriter, pin_id: str, now: datetime) -> None:
    """End a pin: the next runs may delete its objects."""
    if _change(state, pin_id, lambda pin: replace(pin, until=now)) is None:
        raise ConfigError(f"there is no pin {pin_id}. Nothing was ended.")


def narrow_pin(
    state: ObjectWriter,
    pin_id: str,
    sets: tuple[LocatedSet, ...],
    objects: int,
    size_bytes: int,
    now: datetime,
) -> Pin | None:
    """Reduce a pin to the restored objects, and note the end of the restore. A pin without objects ends. `now`: the
    store's time, asked after the last answer of the store. Returns the new pin; None without a pin."""

    def narrow(pin: Pin) -> Pin:
        found = replace(pin, sets=sets, objects=objects, size_bytes=size_bytes, finished_at=now)
        return found if objects else replace(found, until=min(pin.until, now))

    return _change(state, pin_id, narrow)


def _change(state: ObjectWriter, pin_id: str, change: Callable[[Pin], Pin]) -> Pin | None:
    return change_file(state, f"{PINS}/{pin_id}.json", lambda value: change(from_file(Pin, value)))


INTERVALS_MAX = 1000
_SECOND = timedelta(seconds=1)


def slices_of(addresses: pa.ChunkedArray | pa.Array) -> Coverage:
    """The slices of objects: folders below the first one with a time in their names, as in `data/<slice>/<name>`. Other
    folders are listed by every run, and other collectors have no slices."""
    found = pc.unique(pc.struct_field(pc.extract_regex(addresses, "^[^/]+/(?P<slice>[^/]+)/"), "slice"))
    opened = [descending_time(name) for name in found.to_pylist() if name is not None and is_run_id(name)]
    return Coverage.of((at, at + _SECOND) for at in opened).at_most(INTERVALS_MAX)


def unite_slices(found: Iterable[Coverage]) -> Coverage:
    """The union of slices, and possibly more."""
    return Coverage.of(interval for slices in found for interval in slices.intervals).at_most(INTERVALS_MAX)


def is_seen(pin: Pin, cutoff: datetime) -> bool:
    """Whether a complete run with a cutoff has seen all restored objects of a pin, if it listed its slices."""
    return (pin.finished_at or pin.until) < cutoff


def slices_to_list(pins: Iterable[Pin], cutoff: datetime) -> Coverage:
    """The slices for a run to list in spite of earlier coverage."""
    return unite_slices(pin.slices for pin in pins if not is_seen(pin, cutoff))


_PLAN = "plan.json"
_FOLDERS_MAX = 200
"""Old folders of a place that a run checks; the next runs check the rest."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with folders of runs."""

    name: str
    kept: Set[str]  # ids of needed runs of any age
    # whether the folder of an id belongs to the repository; takes a reader on the place
    is_ours: Callable[[ObjectReader, str], bool]


class OldFolders(Struct):
    """Removable folders."""

    # files by folder, relative to the folder of own files; the plan last
    folders: dict[str, list[str]] = field(default_factory=dict)
    size_bytes: int = 0
    left: int = 0


def find_old_folders(
    run: PlannedRun[Any], reader: ObjectReader, place: Place, oldest: datetime
) -> OldFolders:
    """Find removable folders of runs (read-only)."""
    runs = open_reader(f"{reader.uri}/{place.name}", run.options)
    old = [
        run_id for run_id in run_ids(runs) if run_id not in place.kept and descending_time(run_id) < oldest
    ]
    # A random choice: each run checks few folders, and must not spend this on folders that always stay.
    chosen = random.Random(run.plan.run_id).sample(old, min(len(old), _FOLDERS_MAX))
    found = OldFolders(left=len(old) - len(chosen))

    def files_of(run_id: str) -> ListedFiles | None:
        # Only a purge removes copies, and only the ledger has their names.
        if not place.is_ours(runs, run_id) or _has_copies(runs, run_id):
            return None
        files = ListedFiles.of(reader, f"{place.name}/{run_id}/", oldest)
        return files if len(files.aged) == len(files.sizes) else None  # a file is new: the run has continued

    listed = ordered_map(files_of, chosen, _AT_ONCE)
    for run_id, files in zip(chosen, listed, strict=True):
        if files is None:
            continue
        plan = f"{place.name}/{run_id}/{_PLAN}"
        last = [plan] if plan in files.sizes else []
        found.folders[f"{place.name}/{run_id}"] = [*(key for key in files.below("") if key != plan), *last]
        found.size_bytes += sum(files.sizes.values())
    return found


def _has_copies(runs: ObjectReader, run_id: str) -> bool:
    return next(iter(runs.list(f"{run_id}/{QUARANTINE_FOLDER}/")), None) is not None


def ended_pins(
    pins: Iterable[Pin], files: ListedFiles, folder: str, is_over: Callable[[Pin], bool]
) -> Iterator[str]:
    """Old files of ended pins, each record before its hashes; and hashes without a record."""
    known = {pin.pin_id: pin for pin in pins}
    for key in files.old(f"{folder}{PINS}/"):
        name, _, is_hashes = key.removeprefix(f"{folder}{PINS}/").partition("/")
        pin = known.get(name.removesuffix(".json"))
        if bool(is_hashes) if pin is None else is_over(pin):
            yield key
