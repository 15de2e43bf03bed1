"""Of those who ask at once one works, and an error is nobody's answer but theirs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from dredge.pages.object_rows import Kept


def test_one_works_for_all_who_ask_at_once() -> None:
    kept: Kept[int] = Kept(4)
    asked, go_on = threading.Barrier(3), threading.Event()
    made: list[int] = []

    def make() -> int:
        go_on.wait(10)
        made.append(1)
        return 7

    def ask() -> int:
        asked.wait(10)
        return kept.get("a", make)

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask) for _ in range(2)]
        asked.wait(10)
        go_on.set()
        assert [item.result(10) for item in waiting] == [7, 7]
    assert made == [1]
