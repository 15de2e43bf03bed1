"""Pins: what was brought back is held from the next runs until an end that the user gives.

    <state>/pins/<id>/hashes-….u64    hashes of the addresses, written before anything is brought back
    <state>/pins/<id>.json            the record; with it the pin is in force

A pin that cannot be read stops a run: nobody could tell what it holds. Two addresses with the same hash hold each
other, which keeps garbage. The end of a complete run removes pins that ended a week ago (`save_report.lifetimes`).

Which slices have to be listed again, because a restore has brought objects back into them.

An optimized run passes over slices that earlier runs have covered, and what a restore puts there is in no pending list:
it was deleted. So the pin of a restore notes the slices, and runs list them until one that is complete has seen all
that came back as old as a candidate is: its cutoff is after the end of the restore, or after that of the pin where the
restore died and nobody knows when its last request was done. What nothing names is in the pending list from then on.

Intervals of time stand for slices, a bounded number of them; more slices than needed may be listed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.coverage import Coverage
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.lifetimes import is_run_id
from dredge.runs.payload import from_file, to_json
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_writer
from dredge.storage.parallel import ordered_map
from dredge.xid import descending_time

PINS = "pins"
PINNED = "pinned"
_AT_ONCE = 16
_CHANGES_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Objects that are held until an end.

    Attributes:
        pin_id: its id, which is that of the restore.
        run_id: the run whose deletions were taken back.
        reason: in the words of whoever asked for it.
        created_at: by the store's clock.
        until: when it ends, by the store's clock.
        objects: how many.
        size_bytes: their sizes together.
        sets: hashes of their addresses.
        slices: those that the objects lie in, and perhaps more (`came_back`).
        finished_at: after everything was brought back, by the store's clock; None when nobody knows.
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
    """The folder with the hashes of a pin.

    Args:
        state_uri: URI of the folder of lease and index.
        pin_id: its id.
        options: None reads the environment.
    """
    return RunFolder(open_writer(f"{state_uri}/{PINS}/{pin_id}", options), pin_id)


def write_pin(state: ObjectWriter, pin: Pin) -> None:
    """Put a pin in force; its hashes are written."""
    RunFolder(state, pin.pin_id).write_json(f"{PINS}/{pin.pin_id}.json", to_json(pin))


def read_pins(state: ObjectReader) -> list[Pin]:
    """Read every pin of a repository, also those that have ended.

    Args:
        state: on the folder of lease and index.

    Raises:
        FormatError: one cannot be read, so nobody can tell what it holds.
    """
    found = ordered_map(lambda name: _read(state, name), _records(state), _AT_ONCE)
    return [pin for pin in found if pin is not None]


def _read(state: ObjectReader, name: str) -> Pin | None:
    try:
        return from_file(Pin, read_json(state, name))
    except NotFoundError as error:
        # The end of a run removes what ended long ago, also between two looks.
        if name in _records(state):
            raise FormatError(f"{state.uri}/{name} is listed, and not there: {error}") from None
        return None
    except FormatError as error:
        raise FormatError(
            f"{state.uri}/{name} is no pin ({error}), so nobody can tell what it holds. Nothing was deleted."
            " Restore the objects again, then remove this file."
        ) from None


def names_of_pins(state: ObjectReader) -> frozenset[str]:
    """The names of all pins, by one listing: whether there are others than at an earlier look.

    Args:
        state: on the folder of lease and index.
    """
    return frozenset(_records(state))


def names_of(pins: Iterable[Pin]) -> frozenset[str]:
    """The names of some pins, as `names_of_pins` gives them."""
    return frozenset(f"{PINS}/{pin.pin_id}.json" for pin in pins)


def _records(state: ObjectReader) -> list[str]:
    return [item.key for item in state.list_level(f"{PINS}/").objects if item.key.endswith(".json")]


def active_pins(state: ObjectReader, now: datetime) -> list[Pin]:
    """Read the pins that have not ended.

    Args:
        state: on the folder of lease and index.
        now: the store's time.

    Raises:
        FormatError: one cannot be read.
    """
    return [pin for pin in read_pins(state) if pin.until > now]


def sets_of(pins: Sequence[Pin]) -> tuple[LocatedSet, ...]:
    """What some pins hold."""
    return tuple(item for pin in pins for item in pin.sets)


def end_pin(state: ObjectWriter, pin_id: str, now: datetime) -> None:
    """End a pin: the next runs may delete what it holds.

    Args:
        state: on the folder of lease and index.
        pin_id: its id.
        now: the store's time.

    Raises:
        ConfigError: there is no such pin.
        ConflictError: others change it all the time.
    """
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
    """Let a pin hold only what came back under it, and note that nothing more does. A pin of nothing ends.

    Args:
        state: on the folder of lease and index.
        pin_id: its id.
        sets: hashes of what came back; they are written.
        objects: how many.
        size_bytes: their sizes together.
        now: the store's time, asked after the last answer of the store.

    Returns:
        The pin as it is then; None when there is none.

    Raises:
        ConflictError: others change it all the time.
    """

    def narrow(pin: Pin) -> Pin:
        found = replace(pin, sets=sets, objects=objects, size_bytes=size_bytes, finished_at=now)
        return found if objects else replace(found, until=min(pin.until, now))

    return _change(state, pin_id, narrow)


def _change(state: ObjectWriter, pin_id: str, change: Callable[[Pin], Pin]) -> Pin | None:
    """Change a pin as it is now; None when there is none."""
    key = f"{PINS}/{pin_id}.json"
    for _ in range(_CHANGES_MAX):
        tagged = read_tagged(state, key)
        if tagged is None:
            return None
        pin = change(from_file(Pin, json.loads(tagged[1])))
        if replace_tagged(state, key, json.dumps(to_json(pin), sort_keys=True).encode(), tagged[0]):
            return pin
    raise ConflictError(f"{state.uri}/{key} was changed by somebody else at the same moment. Look again.")


INTERVALS_MAX = 1000
_SECOND = timedelta(seconds=1)


def slices_of(addresses: pa.ChunkedArray | pa.Array) -> Coverage:
    """The slices that some objects lie in: folders below the first one whose names tell a time. The others are listed
    by every run; collectors without such folders have none.

    Args:
        addresses: such as `data/<slice>/<name>`.
    """
    found = pc.unique(pc.struct_field(pc.extract_regex(addresses, "^[^/]+/(?P<slice>[^/]+)/"), "slice"))
    opened = [descending_time(name) for name in found.to_pylist() if name is not None and is_run_id(name)]
    return Coverage.of((at, at + _SECOND) for at in opened).at_most(INTERVALS_MAX)


def unite_slices(found: Iterable[Coverage]) -> Coverage:
    """All slices of several, and perhaps more."""
    return Coverage.of(interval for slices in found for interval in slices.intervals).at_most(INTERVALS_MAX)


def is_seen(pin: Pin, cutoff: datetime) -> bool:
    """Whether a complete run with a cutoff has seen everything that came back under a pin, if it listed its slices.

    Args:
        pin: of a restore.
        cutoff: of the run.
    """
    return (pin.finished_at or pin.until) < cutoff


def slices_to_list(pins: Iterable[Pin], cutoff: datetime) -> Coverage:
    """The slices that a run has to list whatever earlier runs have covered.

    Args:
        pins: also those that have ended.
        cutoff: of the complete run that it builds on.
    """
    return unite_slices(pin.slices for pin in pins if not is_seen(pin, cutoff))
