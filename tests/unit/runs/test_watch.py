"""The driver's watch: whatever keeps it from looking closes the gate."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Watch, watching
from dredge.storage import open_writer, store_clock
from tests.support.memory_store import memory_store

KEY = "s/_watch/1.json"
MINUTE = timedelta(minutes=1)


@pytest.fixture
def folder() -> RunFolder:
    memory_store("watch-test").objects.clear()
    return RunFolder(open_writer("memory://watch-test/run"), "run")


def _written(folder: RunFolder) -> dict[str, Any]:
    """What is written, but for the time when the look began."""
    found = folder.read_json(KEY)
    assert timedelta() <= store_clock(folder.writer, "") - datetime.fromisoformat(found.pop("at")) < MINUTE
    return found


def test_a_reason_to_stop_closes_the_gate(folder: RunFolder) -> None:
    watch = Watch(folder, folder.writer, KEY, lambda: "main moved")
    assert not watch.look()
    assert _written(folder) == {"open": False, "reason": "main moved", "published": 0}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(UnavailableError("503"), "503"), (KeyError(), "KeyError"), (UnavailableError(""), "UnavailableError")],
)
def test_a_look_that_fails_closes_the_gate_also_without_a_word(
    folder: RunFolder, error: Exception, reason: str
) -> None:
    def look() -> str | None:
        raise error

    watch = Watch(folder, folder.writer, KEY, look)
    assert not watch.look()
    assert watch.error is error
    assert _written(folder) == {"open": False, "reason": reason, "published": 0}


def test_a_driver_that_cannot_ask_for_the_time_closes_the_gate(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_clock(*_: object) -> datetime:
        raise UnavailableError("503")

    monkeypatch.setattr("dredge.runs.gate.store_clock", no_clock)
    assert not Watch(folder, folder.writer, KEY, lambda: None).look()
    assert folder.read_json(KEY) == {"open": False, "reason": "503", "at": None, "published": 0}


def test_a_look_names_what_was_published_by_its_end(folder: RunFolder) -> None:
    """Workers that read the look then read at least that."""
    numbers = []

    def look() -> str | None:
        numbers.append(len(numbers) + 1)
        return None

    watch = Watch(folder, folder.writer, KEY, look, lambda: numbers[-1])
    for number in (1, 2):
        assert watch.look()
        assert _written(folder)["published"] == number


@pytest.mark.parametrize("looks", [UnavailableError("heads: 503"), None])
def test_a_look_that_cannot_be_written_down_stops_the_driver_too(
    folder: RunFolder, looks: Exception | None
) -> None:
    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(folder.writer, name)

        def put(self, key: str, data: bytes) -> None:
            raise ConfigError("the disk is full")

    def look() -> str | None:
        if looks is not None:
            raise looks
        return None

    full: Any = Full()
    watch = Watch(RunFolder(full, "run"), folder.writer, KEY, look)
    assert not watch.look()
    assert isinstance(watch.error, ConfigError if looks is None else UnavailableError)


def test_the_driver_looks_again_and_again_until_it_finds_a_reason_to_stop(folder: RunFolder) -> None:
    looks = 0

    def look() -> str | None:
        nonlocal looks
        looks += 1
        return "main moved" if looks == 3 else None

    with watching(folder, folder.writer, KEY, look, 0.001) as watch:
        for _ in range(1000):
            if watch.found:
                break
            threading.Event().wait(0.005)
    assert (looks, watch.found) == (3, "main moved"), "and not once more, when the reason might be gone"
    assert _written(folder) == {"open": False, "reason": "main moved", "published": 0}


def test_nobody_looks_when_the_deleting_is_over(folder: RunFolder) -> None:
    with watching(folder, folder.writer, KEY, lambda: None, 3600):
        watcher = next(thread for thread in threading.enumerate() if thread.name == "watch")
        assert watcher.is_alive()
    assert not watcher.is_alive()
