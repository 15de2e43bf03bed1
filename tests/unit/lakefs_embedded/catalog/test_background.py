"""Work in the background of a catalog."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from lakefs_embedded.catalog.background import Background


def fail() -> None:
    raise RuntimeError("out of luck")


def test_without_background_the_work_is_done_at_once_and_its_error_reaches_the_caller() -> None:
    background, done = Background(enabled=False), threading.Event()
    background.start(done.set)
    assert done.is_set()
    with pytest.raises(RuntimeError):
        background.start(fail)


def test_join_waits_no_longer_than_it_is_told() -> None:
    background, go_on = Background(enabled=True), threading.Event()

    def work() -> None:
        go_on.wait(10)

    background.start(work)
    assert not background.join(0.01)
    go_on.set()
    assert background.join(10)


def test_work_keeps_the_context_of_who_started_it() -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: list[str] = []
    background = Background(enabled=True)
    token = who.set("starter")
    background.start(lambda: seen.append(who.get()))
    who.reset(token)
    background.join()
    assert seen == ["starter"]
