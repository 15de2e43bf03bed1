"""The plan of a collection as a value."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.plan import CollectionPlan, read_plan
from dredge.inventory.manifest import Inventory
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json, to_json
from dredge.runs.versions import Version
from dredge.undo.ways import UndoWay

AT = datetime(2026, 5, 1, tzinfo=UTC)
PLAN = CollectionPlan(
    run_id="r1",
    uri="memory://here/repo",
    spec_version=2,
    run_uri="memory://here/repo/_dredge/runs/r1",
    created_at=AT,
    cutoff=AT.replace(month=4),
    mode="optimized",
    why_mode="asked for",
    state=Version("state/x.json", "ab"),
    state_etag="tag",
    lease=LeaseGrant("run r1", 3, AT.replace(month=6)),
    config=CollectConfig(uri="memory://here/repo", dry_run=False, max_delete_objects=5),
    inventory=Inventory(uri="memory://here/inventory/manifest.json", digest="cd", created_at=AT),
    undo=UndoWay(way="versions", why="the bucket keeps them"),
)


def test_plan_comes_back_whole() -> None:
    assert from_json(CollectionPlan, to_json(PLAN)) == PLAN
    plain = replace(PLAN, state=None, state_etag=None, inventory=None)
    assert from_json(CollectionPlan, to_json(plain)) == plain
    assert to_json(PLAN).keys() == {item.name for item in fields(PLAN)}


@pytest.mark.parametrize("dry_run", [True, False])
def test_plan_of_a_dry_run_says_so(dry_run: bool) -> None:
    plan = replace(PLAN, config=replace(PLAN.config, dry_run=dry_run))
    assert plan.dry_run is dry_run


def test_folder_without_a_plan_is_no_run() -> None:
    with pytest.raises(ConfigError):
        read_plan("memory://test-plan-none/runs/r1")
