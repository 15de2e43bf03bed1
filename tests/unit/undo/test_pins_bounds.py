"""A pin holds what it holds until its very end, is written and read whole, and is changed by one at a time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from dredge.errors import ConfigError, ConflictError, FormatError
from dredge.runs.clock import Coverage
from dredge.sets.hashes import write_hashes
from dredge.sets.live import LocatedSet, ShardedSet
from dredge.storage import ObjectWriter, open_writer
from dredge.undo import pins
from dredge.undo.pins import (
    Pin,
    active_pins,
    end_pin,
    narrow_pin,
    pin_folder,
    read_pins,
    write_pin,
)
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TICK, DAY = timedelta(microseconds=1), timedelta(days=1)


@pytest.fixture
def state() -> Iterator[ObjectWriter]:
    name = f"pins-{uuid.uuid4().hex[:8]}"
    yield open_writer(f"memory://{name}")
    forget_memory_store(name)


def pin(state: ObjectWriter, name: str = "one", until: datetime = NOW, **more: Any) -> Pin:
    """In force, and holds the hashes 1 and 5."""
    folder = pin_folder(state.uri, name)
    part = write_hashes(folder, "hashes-0.u64", np.array([1, 5], np.uint64))
    made = Pin(
        pin_id=name,
        run_id="run",
        reason="an audit",
        created_at=NOW - DAY,
        until=until,
        objects=2,
        size_bytes=7,
        sets=(LocatedSet(folder.uri, ShardedSet(0, {0: part})),),
        slices=Coverage(((NOW - 9 * DAY, NOW - 8 * DAY),)),
        **more,
    )
    write_pin(state, made)
    return made


@pytest.mark.parametrize("content", [b"{}", b"[]", b"no json"])
def test_one_pin_that_cannot_be_read_is_an_error(content: bytes, state: ObjectWriter) -> None:
    pin(state)
    state.put("pins/broken.json", content)
    with pytest.raises(FormatError):
        read_pins(state)
    with pytest.raises(FormatError):
        active_pins(state, NOW)


def test_ending_changes_the_time_and_narrowing_what_it_holds(state: ObjectWriter) -> None:
    made = pin(state)
    end_pin(state, "one", NOW - DAY)
    assert read_pins(state) == [replace(made, until=NOW - DAY)]
    narrow_pin(state, "one", made.sets, 1, 2, NOW)
    narrowed = replace(made, until=NOW - DAY, finished_at=NOW, objects=1, size_bytes=2)
    assert read_pins(state) == [narrowed]
    with pytest.raises(ConfigError):
        end_pin(state, "other", NOW)
    assert narrow_pin(state, "other", (), 0, 0, NOW) is None
    assert len(read_pins(state)) == 1, "none is made"


@pytest.mark.parametrize("changes", [4, 5])
def test_a_pin_that_somebody_else_changes_is_read_anew_some_times(
    changes: int, state: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, honest, left = pin(state), pins.replace_tagged, [changes]  # type: ignore[attr-defined]

    def late(writer: ObjectWriter, key: str, data: bytes, etag: str | None) -> bool:
        if left[0]:
            left[0] -= 1
            write_pin(state, replace(made, size_bytes=100 + left[0]))
        return bool(honest(writer, key, data, etag))

    monkeypatch.setattr(pins, "replace_tagged", late)
    if changes == 5:
        with pytest.raises(ConflictError):
            end_pin(state, "one", NOW - DAY)
        assert read_pins(state) == [replace(made, size_bytes=100)]
    else:
        end_pin(state, "one", NOW - DAY)
        assert read_pins(state) == [replace(made, size_bytes=100, until=NOW - DAY)]
