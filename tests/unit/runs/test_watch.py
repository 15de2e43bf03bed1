"""The driver's watch: whatever keeps it from looking closes the gate."""

from __future__ import annotations

import pytest

from dredge.errors import UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.watch import Watch, watching
from dredge.storage import memory_store, open_writer

KEY = "s/_watch/1.json"


@pytest.fixture
def folder() -> RunFolder:
    memory_store("watch-test").objects.clear()
    return RunFolder(open_writer("memory://watch-test/run"), "run")


def test_an_open_gate_is_written_down(folder: RunFolder) -> None:
    watch = Watch(folder, KEY, lambda: None)
    assert watch.look()
    assert folder.read_json(KEY) == {"open": True, "reason": ""}


def test_a_reason_to_stop_closes_the_gate(folder: RunFolder) -> None:
    watch = Watch(folder, KEY, lambda: "main moved")
    assert not watch.look()
    assert folder.read_json(KEY) == {"open": False, "reason": "main moved"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(UnavailableError("503"), "503"), (KeyError(), "KeyError"), (UnavailableError(""), "UnavailableError")],
)
def test_a_look_that_fails_closes_the_gate_also_without_a_word(
    folder: RunFolder, error: Exception, reason: str
) -> None:
    def look() -> str | None:
        raise error

    watch = Watch(folder, KEY, look)
    assert not watch.look()
    assert watch.error is error
    assert folder.read_json(KEY) == {"open": False, "reason": reason}


def test_a_reason_without_words_closes_the_gate(folder: RunFolder) -> None:
    assert not Watch(folder, KEY, lambda: "").look()
    assert folder.read_json(KEY)["open"] is False


def test_workers_find_a_look_that_was_made_before_they_began(folder: RunFolder) -> None:
    with watching(folder, KEY, lambda: None, 3600) as watch:
        assert folder.read_json(KEY)["open"] is True
    assert watch.error is None
