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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.runs.clock import Coverage
from dredge.runs.folder import RunFolder, is_run_id, read_json
from dredge.runs.payload import from_file, to_json
from dredge.runs.tries import change_file
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_writer
from dredge.storage.parallel import ordered_map
from dredge.xid import descending_time

PINS = "pins"
PINNED = "pinned"
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Objects held until an end.

    Attributes:
        pin_id: its id, the id of the restore.
        until: its end, by the store's clock.
        slices: of the objects, and possibly more.
        finished_at: end of the restore, by the store's clock; None when unknown.
    """

    pin_id: str
    run_id: str
    reason: str
    created_at: datetime
    until: datetime
    objects: int
    size_bytes: int
    sets: tuple[LocatedSet, ...]
    slices: Coverage
    finished_at: datetime | None = None

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
    """Read every pin of a repository, including ended pins.

    Raises:
        FormatError: an unreadable pin, so its objects are unknown.
    """
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
    """Reduce a pin to the restored objects, and note the end of the restore. A pin without objects ends.

    Args:
        now: the store's time, asked after the last answer of the store.

    Returns:
        The new pin; None without a pin.
    """

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
    folders are listed by every run, and other collectors have no slices.
    """
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
