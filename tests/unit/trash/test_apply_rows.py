"""Which rows a removal takes for those of its plan, and when what it removed is looked after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dredge.kv.rows import Guard, Row
from dredge.trash import apply as apply_module
from dredge.trash.apply import NamedAgainError
from dredge.trash.names import ACTIONS, MARKERS
from tests.support.trash import Ground, applier, key_of, partition_of


def test_a_key_that_is_gone_is_not_mistaken_for_the_next_one(ground: Ground) -> None:
    """Many have the same value, which is none."""
    world, keys = ground.world, [b"repos/gone/tasks/a/0", b"repos/gone/tasks/b/0"]
    for key in keys:
        world.kv.set(ACTIONS, key, b"")
    first, last = (key_of(ground, ACTIONS, key) for key in keys)
    world.kv.delete(ACTIONS, keys[0])
    assert [outcome.fate for outcome in applier(ground).run([first])] == ["gone"]
    assert world.kv.get(ACTIONS, keys[1]) == b""
    world.kv.delete(ACTIONS, keys[1])
    assert [outcome.fate for outcome in applier(ground).run([last])] == ["gone"]


def test_a_partition_that_is_gone_is_told_as_gone(ground: Ground) -> None:
    finding = partition_of(ground, ground.orphan)
    for entry in list(ground.world.kv.scan(ground.orphan)):
        ground.world.kv.delete(ground.orphan, entry.key)
    assert [outcome.fate for outcome in applier(ground).run([finding])] == ["gone"]


def test_only_a_marker_waits_for_the_partition_of_its_name(ground: Ground) -> None:
    for partition in (b"elsewhere", MARKERS):
        ground.world.kv.set(partition, ground.orphan, b"value")
    findings = [key_of(ground, partition, ground.orphan) for partition in (b"elsewhere", MARKERS)]
    outcomes = applier(ground).run(findings)
    assert {outcome.finding.partition: outcome.fate for outcome in outcomes} == {
        b"elsewhere": "deleted",
        MARKERS: "changed",
    }


def test_a_large_partition_stops_when_another_one_is_named_that_went_before(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that was wrong about one partition may be wrong about the next."""
    monkeypatch.setattr(apply_module, "GROUP_ROWS", 2)
    large = ground.world.stage("lake-zzz:1", *"abcdef")
    findings = [partition_of(ground, ground.orphan), partition_of(ground, large)]
    delete_rows, calls = ground.world.store.delete_rows, list[int]()

    def name_the_first(rows: Sequence[Row], guards: Sequence[Guard] = ()) -> list[bool]:
        calls.append(len(rows))
        done = delete_rows(rows, guards)
        if len(calls) == 2:
            ground.name_orphan()
        return done

    monkeypatch.setattr(ground.world.store, "delete_rows", name_the_first)
    with pytest.raises(NamedAgainError):
        applier(ground).run(findings)
    assert calls == [2, 2]
    assert len(list(ground.world.kv.scan(large))) == 4
    assert ground.orphan_rows() == 2


def test_without_anything_to_remove_what_went_before_is_looked_after(ground: Ground) -> None:
    applying = applier(ground)
    applying.run([partition_of(ground, ground.orphan)])
    ground.name_orphan()
    findings: list[Any] = []
    with pytest.raises(NamedAgainError):
        applying.run(findings)
    assert ground.orphan_rows() == 2
