"""What a plan binds an approval to, and the limits themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.runs.payload import from_sealed, to_json, to_sealed
from dredge.trash.findings import (
    KINDS,
    TrashFinding,
    TrashLimits,
    TrashPlan,
    check_kinds,
    check_limits,
    in_both,
)
from tests.support.kv_world import START

TRASH = TrashFinding(b"lake-a:1", None, "staging-orphan", "trash", "why", 2, 10, "d1")
KEY = TrashFinding(b"lake", b"imports/x", "import-expired", "trash", "why", 1, 5, "d2")


def plan_of(findings: Sequence[TrashFinding], partitions: int = 4) -> TrashPlan:
    return TrashPlan("run", "memory://", START, tuple(findings), partitions, 3)


@pytest.mark.parametrize(
    "other",
    [
        [TRASH],
        [KEY, TRASH],
        [TRASH, replace(KEY, key=b"imports/y")],
        [TRASH, replace(KEY, key=None)],
        [TRASH, replace(KEY, key=b"")],
        [TRASH, replace(KEY, partition=b"lake-")],
        [TRASH, replace(KEY, kind="task-expired")],
        [TRASH, replace(KEY, digest="d3")],
        [TRASH, replace(KEY, partition=b"lak", key=b"eimports/x")],
    ],
)
def test_the_digest_of_a_plan_is_of_all_that_goes(other: Sequence[TrashFinding]) -> None:
    assert plan_of([TRASH, KEY]).digest != plan_of(other).digest


def test_a_plan_with_another_finding_than_its_digest_says_is_not_read() -> None:
    value = to_sealed(plan_of([TRASH]))
    with pytest.raises(FormatError):
        from_sealed(TrashPlan, value | {"findings": [*value["findings"], to_json(KEY)]})


def test_only_kinds_that_can_become_trash_may_be_asked_for() -> None:
    assert check_kinds(None) == frozenset(KINDS)
    assert check_kinds(["marker"]) == {"marker"}
    assert check_kinds([]) == frozenset()
    with pytest.raises(ConfigError):
        check_kinds(["marker", "lost-repository"])


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "wait"},
        {"verdict": "report"},
        {"partition": b"lake-b:1"},
        {"key": b"k"},
        {"kind": "staging-queued"},
        {"digest": "d3"},
    ],
)
def test_what_a_second_look_sees_otherwise_is_not_kept(change: dict[str, Any]) -> None:
    assert in_both([TRASH, KEY], [replace(TRASH, why="another"), KEY]) == (TRASH, KEY)
    assert in_both([TRASH, KEY], [replace(TRASH, **change), KEY]) == (KEY,)


def trash(count: int) -> list[TrashFinding]:
    return [replace(TRASH, partition=b"lake-%d:1" % number) for number in range(count)]


@pytest.mark.parametrize("limit", [{"partitions": 3}, {"rows": 7}, {"size_bytes": 35}])
def test_a_limit_may_be_reached_and_not_passed(limit: dict[str, int]) -> None:
    plan = plan_of([*trash(3), KEY], partitions=9)
    assert (plan.rows, plan.size_bytes) == (7, 35)
    check_limits(plan, TrashLimits(**limit), 1)
    ((name, value),) = limit.items()
    with pytest.raises(RefusedError):
        check_limits(plan, TrashLimits(**{name: value - 1}), 1)


@pytest.mark.parametrize(
    ("partitions", "count", "refused"),
    [
        (100, 50, False),
        (100, 51, True),
        (99, 99, False),
        (102, 51, False),
        (101, 51, True),
        (200, 100, False),
    ],
)
def test_up_to_half_of_a_large_store_may_go(partitions: int, count: int, refused: bool) -> None:
    plan = plan_of([*trash(count), KEY, KEY], partitions)
    expected: AbstractContextManager[object] = pytest.raises(RefusedError) if refused else nullcontext()
    with expected:
        check_limits(plan, TrashLimits(), 1)


def test_without_a_repository_record_single_keys_may_go_and_partitions_not() -> None:
    check_limits(plan_of([KEY]), TrashLimits(), 0)
    check_limits(plan_of([], partitions=0), TrashLimits(), 0)
    with pytest.raises(RefusedError):
        check_limits(plan_of([KEY, TRASH]), TrashLimits(), 0)
