"""Work in the background of a catalog."""

from __future__ import annotations

import threading

import pytest

from dredge.graveler.catalog.background import Background


def fail() -> None:
    raise RuntimeError("out of luck")


def test_work_goes_on_after_start_and_join_waits_for_it() -> None:
    background, go_on, done = Background(enabled=True), threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(10)
        done.set()

    background.start(work)
    assert not done.is_set()
    go_on.set()
    background.join()
    assert done.is_set()


def test_an_error_in_the_background_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    background = Background(enabled=True)
    background.start(fail)
    background.join()
    assert "background work failed" in caplog.text
    assert "out of luck" in caplog.text


def test_without_background_the_work_is_done_at_once_and_its_error_reaches_the_caller() -> None:
    background, done = Background(enabled=False), threading.Event()
    background.start(done.set)
    assert done.is_set()
    with pytest.raises(RuntimeError, match="out of luck"):
        background.start(fail)
