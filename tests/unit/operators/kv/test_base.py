"""Settings of the trash cleaner's tasks, as rendered."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators.kv.trash import (
    LakeFSKVCleanTrashOperator,
    LakeFSKVRestoreTrashOperator,
    LakeFSKVScanTrashOperator,
)
from dredge.errors import ConfigError


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("", ()),
        ("None", ()),
        (None, ()),
        ([], ()),
        ("[]", ()),
        ("marker,heartbeat", ("marker", "heartbeat")),
        ("['marker', 'heartbeat']", ("marker", "heartbeat")),
        (["marker"], ("marker",)),
    ],
)
def test_rendered_kinds(kinds: Any, expected: list[str] | None) -> None:
    operator = LakeFSKVScanTrashOperator(task_id="scan", config={"state_uri": "file:///x", "kinds": kinds})
    assert operator.checked.kinds == expected


def test_a_clean_is_a_dry_run_unless_told() -> None:
    assert LakeFSKVCleanTrashOperator(task_id="clean", config={"state_uri": "file:///x"}).checked.dry_run


@pytest.mark.parametrize(
    "settings",
    [
        {"grace_hours": "23"},
        {"max_rows": "-1"},
        {"kinds": "commits"},
        {"dry_run": "None"},
        {"state_uri": ""},
        {"max_row": 1},
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(settings: Any) -> None:
    config = {"state_uri": "file:///x", **settings}
    operator = LakeFSKVCleanTrashOperator(task_id="clean", config=config, kv_conn_id="is never asked for")
    with pytest.raises(ConfigError):
        operator.execute({})  # type: ignore[typeddict-item]


def test_a_restore_is_a_dry_run_of_every_partition_unless_told() -> None:
    config = {"state_uri": "file:///x", "run": "r", "partition": "None"}
    checked = LakeFSKVRestoreTrashOperator(task_id="restore", config=config).checked
    assert (checked.dry_run, checked.partitions) == (True, None)
    named = LakeFSKVRestoreTrashOperator(task_id="restore", config={**config, "partition": r"a\xff"}).checked
    assert named.partitions == [b"a\xff"]
