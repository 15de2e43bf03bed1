"""What expired commits name says why an object is garbage: the newest first, as many as may be read, and no error."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.gc.index.ranges import Metaranges, RangeFacts
from dredge.gc.list_committed import step
from dredge.gc.list_committed.step import Expired, find_expired
from dredge.gc.run import Run
from dredge.lakefs import Commit

FACTS = RangeFacts(1, b"a", b"z")
FILES = {"m3": ["r1", "r3"], "m2": ["r2", "r3"], "m1": ["r2", "r4"], "m0": ["r5"]}
"""Ranges of metaranges; `r1` and, where it is said, others are active."""


def metaranges(names: Iterable[str]) -> Metaranges:
    found = Metaranges()
    for name in names:
        for item in FILES[name]:
            found.ranges[item] = FACTS
        place = {item: row for row, item in enumerate(found.ranges)}
        found.named[name] = np.array([place[item] for item in FILES[name]], np.int32)
    return found


class Store:
    """Reads metaranges; some are damaged."""

    def __init__(self, damaged: Iterable[str]) -> None:
        self.damaged = set(damaged)
        self.read: list[list[str]] = []

    def __call__(self, _run: Run, _runner: object, _where: str, names: Iterable[str]) -> Metaranges:
        self.read.append(list(names))
        if self.damaged.intersection(self.read[-1]):
            raise FormatError("damaged")
        return metaranges(self.read[-1])


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    def find(
        wanted: Iterable[str] = FILES,
        *,
        most: int = 100,
        known: Iterable[str] = (),
        active: Iterable[str] = ("r1",),
        damaged: Iterable[str] = (),
    ) -> tuple[Expired, Store]:
        store = Store(damaged)
        monkeypatch.setattr(step, "read_metaranges", store)
        tuning = SimpleNamespace(explain_ranges_max=most)
        run = cast("Run", SimpleNamespace(plan=SimpleNamespace(config=SimpleNamespace(tuning=tuning))))
        now = datetime(2026, 3, 1, tzinfo=UTC)
        commits = [Commit(f"c{at}", (), now, name) for at, name in enumerate(wanted)]
        return find_expired(run, commits, metaranges(known), set(active)), store

    return find


@pytest.mark.parametrize("known", [(), ("m2",), ("m3", "m2", "m1", "m0")])
def test_all_that_expired_commits_name_and_active_ones_do_not(known: tuple[str, ...], found: Any) -> None:
    answer, store = found(known=known)
    assert list(answer.ranges) == ["r3", "r2", "r4", "r5"], "the newest first"
    assert set(answer.ranges.values()) == {FACTS}
    assert set(answer.named) == {"r2", "r3", "r4", "r5"}
    assert answer.complete
    assert store.read == [[name for name in FILES if name not in known]]


def test_a_file_that_cannot_be_read_is_left_out_alone(found: Any) -> None:
    answer, store = found(damaged=["m2"])
    assert store.read == [list(FILES), ["m3"], ["m2"], ["m1"], ["m0"]]
    assert list(answer.ranges) == ["r3", "r2", "r4", "r5"]
    answer, _ = found(["m3", "m2"], damaged=["m2"])
    assert list(answer.ranges) == ["r3"]
