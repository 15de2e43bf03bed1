"""Which ranges a kept set has beyond the server's answer, and which metaranges have to be read for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pytest

from dredge.gc.index.metaranges import Metaranges
from dredge.gc.index.ranges import RangeFacts
from dredge.gc.retention import kept_sets
from dredge.gc.retention.kept_sets import KeptSet, find_extra
from dredge.gc.run import Run

COMMITS = {"c1": "m1", "c2": "m2", "c3": "m3", "empty": ""}
FILES = {"m1": "ab", "m2": "bc", "m3": "d"}
"""Ranges that metaranges name; each has paths of its letter only."""


def metaranges(names: Iterable[str]) -> Metaranges:
    wanted = sorted(set(names))
    letters = sorted(set("".join(FILES[name] for name in wanted)))
    ranges = {item: RangeFacts(1, f"{item}/0".encode(), f"{item}/9".encode()) for item in letters}
    named = {name: np.array([letters.index(item) for item in FILES[name]], np.int32) for name in wanted}
    return Metaranges(ranges, named)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The metaranges that are read."""
    asked: list[set[str]] = []

    def reading(_run: Run, _runner: object, _where: str, names: set[str]) -> Metaranges:
        asked.append(set(names))
        return metaranges(names)

    monkeypatch.setattr(kept_sets, "read_metaranges", reading)
    return asked


def extras(
    *commits: str, paths: tuple[str, ...] = (), known: Iterable[str] = FILES, without: str = ""
) -> list[set[str]]:
    sets = [KeptSet(f"{number}", "", frozenset(commits), paths) for number in range(2)]
    run, runner = cast("Run", None), cast("Any", None)
    found = find_extra(run, runner, "where", sets, COMMITS.__getitem__, metaranges(known), without)
    assert [extra.kept for extra in found] == sets
    assert all(extra.ranges[item].min_key == f"{item}/0".encode() for extra in found for item in extra.ranges)
    return [set(extra.ranges) for extra in found]


@pytest.mark.parametrize(
    ("without", "paths", "expected"),
    [
        ("", (), "abc"),
        ("b", (), "ac"),
        ("abc", (), ""),
        ("", ("b/*",), "b"),
        ("b", ("b/*", "c/**"), "c"),
        ("", ("x/*",), ""),
    ],
)
def test_a_set_has_the_ranges_of_its_commits_that_may_have_what_it_keeps_and_that_are_not_live_anyway(
    read: list[set[str]], without: str, paths: tuple[str, ...], expected: str
) -> None:
    assert extras("c1", "c2", "empty", paths=paths, without=without) == [{*expected}] * 2
    assert read == [], "all of it was read before"


def test_only_what_was_not_read_before_is_read(read: list[set[str]]) -> None:
    assert extras("c1", "c2", "c3", known=["m2"]) == [{*"abcd"}] * 2
    assert read == [{"m1", "m3"}] * 2
