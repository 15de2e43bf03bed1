"""What the task of an expiration applies: what was planned, under the right that was taken, when it was told to."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators.icechunk.expire import IcechunkExpireOperator
from airflow_dredge.operators.icechunk.plan_expiration import IcechunkPlanExpirationOperator
from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.runs.payload import to_json
from dredge.storage import open_reader
from tests.support.icechunk_operators import NOTHING, Dated

APPLY = {"report_only": "False"}


def planned(dated: Dated, **config: Any) -> dict[str, Any]:
    config = {"older_than": dated.when.isoformat(), "estimate": False, **config}
    return IcechunkPlanExpirationOperator(
        task_id="plan_expiration", storage=dated.repo.uri, config=config, aws_conn_id=None
    ).execute(NOTHING)


def expire(dated: Dated, plan: Any, **settings: Any) -> dict[str, Any]:
    return IcechunkExpireOperator(
        task_id="expire", storage=dated.repo.uri, plan=plan, aws_conn_id=None, **settings
    ).execute(NOTHING)


def refs(dated: Dated) -> set[str]:
    history = read_history(open_reader(dated.repo.uri))
    return {*history.branches, *history.tags}


def test_what_was_planned_is_what_leaves_history(dated: Dated) -> None:
    plan = planned(dated)
    done = expire(dated, plan, **APPLY)
    assert done.pop("expiration_id")
    assert done == {"dry_run": False} | {name: plan[name] for name in ("edited", "released", "refs_deleted")}
    assert done["released"] == 2
    assert refs(dated) == {"main", "old", "first"}
    assert planned(dated)["released"] == 0


@pytest.mark.parametrize(
    ("flag", "left"),
    [("delete_expired_branches", {"main", "first"}), ("delete_expired_tags", {"main", "old"})],
)
def test_names_go_only_where_the_plan_says_so(dated: Dated, flag: str, left: set[str]) -> None:
    plan = planned(dated, **{flag: True, "keep_refs_younger_hours": 0})
    assert len(plan["refs_deleted"]) == 1
    assert expire(dated, plan, **APPLY)["refs_deleted"] == plan["refs_deleted"]
    assert refs(dated) == left


def test_a_commit_after_the_plan_matters_only_to_who_wants_exactly_that_plan(dated: Dated) -> None:
    plan = planned(dated)
    dated.repo.library.writable_session("main").commit("later", allow_empty=True)
    before = dated.digest
    with pytest.raises(RefusedError):
        expire(dated, plan, exactly=True, **APPLY)
    assert dated.digest == before
    assert expire(dated, plan, **APPLY)["released"] == 2


def test_it_works_under_the_right_that_the_run_took_and_not_beside_another(dated: Dated) -> None:
    plan, before = planned(dated), dated.digest
    lease = make_lease(open_state(dated.repo.uri))
    grant = lease.acquire("the run")
    with pytest.raises(LeaseHeldError):
        expire(dated, plan, **APPLY)
    assert dated.digest == before
    expire(dated, plan, lease=to_json(grant), **APPLY)
    lease.check(grant)


@pytest.mark.parametrize("value", ["", "None", "no"])
def test_nothing_vague_is_taken_for_permission(dated: Dated, value: str) -> None:
    plan, before = planned(dated), dated.digest
    with pytest.raises(ConfigError):
        expire(dated, plan, report_only=value)
    assert dated.digest == before
