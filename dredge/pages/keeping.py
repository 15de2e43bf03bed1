"""How a lakeFS repository stands between its runs: how the next one will work and why, and which slices it lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import DredgeError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.index.store import PARTS
from dredge.gc.state.model import RunState
from dredge.gc.state.store import StateStore
from dredge.pages.places import LAKEFS, Place
from dredge.runs.versions import Current, choose_mode
from dredge.runs.words import size_text
from dredge.storage import open_reader, open_writer

LINE_DAYS = 30
"""Days that the time line of covered slices shows."""
_SETTINGS = ("mode", "clean_every_days")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the time line.

    Attributes:
        left: where it begins, per cent of the line.
        width: per cent.
        text: from when to when.
    """

    left: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Keeping:
    """What earlier runs left for the next one.

    Attributes:
        mode: of the next run.
        why: half a sentence.
        facts: name and text of what is known besides.
        covered: stretches whose slices need not be listed again.
        begins: where the line begins.
        ends: where it ends: now.
    """

    mode: str
    why: str
    facts: list[tuple[str, str]]
    covered: list[Piece]
    begins: datetime
    ends: datetime


def keeping_of(place: Place, now: datetime, settings: Mapping[str, Any] | None = None) -> Keeping | None:
    """Read what the last complete run left.

    Args:
        place: whose.
        now: this machine's time.
        settings: what the next run is started with, where that is known; else the usual.

    Returns:
        None where it is not known: of other kinds, and where only runs are known.

    Raises:
        UnavailableError: the store does not answer.
    """
    if place.kind != LAKEFS or not place.lease_uri:
        return None
    current = _current(place)
    name = place.repository or (current.state.repository if current.state else place.name)
    asked = {key: value for key, value in (settings or {}).items() if key in _SETTINGS}
    config = GCConfig.from_params({"repository": name, **asked})
    mode, why = choose_mode(config.mode, config.clean_every_days, current, now)
    begins = now - timedelta(days=LINE_DAYS)
    state = current.state
    return Keeping(
        mode=mode,
        why=why,
        facts=_facts(place, state),
        covered=[] if state is None else pieces(state, begins, now),
        begins=begins,
        ends=now,
    )


def pieces(state: RunState, begins: datetime, ends: datetime) -> list[Piece]:
    """The covered stretches of a line of time."""
    found = []
    length = (ends - begins).total_seconds()
    for start, stop in state.covered.intervals:
        left, right = max(start, begins), min(stop, ends)
        if left < right:
            found.append(
                Piece(
                    round(100 * (left - begins).total_seconds() / length, 2),
                    round(100 * (right - left).total_seconds() / length, 2),
                    f"{'the beginning' if start < begins else f'{start:%Y-%m-%d %H:%M}'} to {stop:%Y-%m-%d %H:%M}",
                )
            )
    return found


def _current(place: Place) -> Current[RunState]:
    """What the pointer leads to. Unlike a run, a page does not read every file that it names."""
    store = StateStore(open_writer(place.lease_uri, place.options), place.options)
    try:
        version = store.newest()
        return Current() if version is None else Current(None, version, store.load(version))
    except UnavailableError:
        raise
    except (DredgeError, KeyError, TypeError, ValueError) as error:
        return Current(problem=str(error))


def _facts(place: Place, state: RunState | None) -> list[tuple[str, str]]:
    parts = open_reader(place.lease_uri, place.options).list_level(f"{PARTS}/").objects
    index = f"{len(parts):,} files, {size_text(sum(item.size for item in parts))}" if parts else "none yet"
    if state is None:
        return [("Index of ranges", index)]
    return [
        ("Last clean run", f"{state.clean_at:%Y-%m-%d %H:%M} UTC, run {state.clean_run_id}"),
        ("Optimized runs since", f"{state.optimized_runs:,}"),
        ("Objects then", f"{state.objects:,}"),
        ("State of run", f"{state.run_id}, {state.started_at:%Y-%m-%d %H:%M} UTC"),
        ("Index of ranges", index),
    ]
