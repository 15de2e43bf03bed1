"""Work in the background of a catalog."""

from __future__ import annotations

import threading

from lakefs_embedded.catalog.background import Background


def test_join_waits_no_longer_than_it_is_told() -> None:
    background, go_on = Background(enabled=True), threading.Event()

    def work() -> None:
        go_on.wait(10)

    background.start(work)
    assert not background.join(0.01)
    go_on.set()
    assert background.join(10)
