"""What each of many repositories is collected with: a dry run whenever anybody says so."""

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators import schedules
from airflow_dredge.operators.icechunk.many import IcechunkChooseRepositoriesOperator
from airflow_dredge.operators.icechunk.params import ALL_FORM
from airflow_dredge.operators.many import LEFT_OUT, SUMMARY_ROOT
from airflow_dredge.operators.params import make_params
from tests.support.icechunk_operators import Dated
from tests.support.lakefs_operators import Pushed


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    monkeypatch.setattr(schedules, "read_schedules", lambda *_: entries)
    return entries


def chosen(storages: str, **params: Any) -> tuple[list[dict[str, Any]], dict[str, str], str]:
    operator = IcechunkChooseRepositoriesOperator(
        task_id="choose_repositories", which={"storages": storages}, aws_conn_id=None
    )
    pushed = Pushed()
    context: Any = {
        "ti": pushed,
        "params": {name: param.value for name, param in make_params(ALL_FORM, {}).items()} | params,
        "run_id": "manual__1",
        "dag_run": SimpleNamespace(dag_id="icechunk_all"),
    }
    confs = [run["conf"] for part in operator.execute(context) for run in part]
    task = pushed.task_id
    return confs, pushed[task, LEFT_OUT], pushed[task, SUMMARY_ROOT]


def test_each_repository_is_started_with_its_own_settings_or_left_out_with_the_reason(
    dated: Dated, garbage: Any, variable: dict[str, Any]
) -> None:
    here, there, nowhere = dated.repo.uri, garbage.uri, f"{dated.repo.uri}-gone"
    variable["a"] = {"schedule": "@daily", "storage": here, "older_than": "7d"}
    confs, left_out, _ = chosen(f"{here} {there} {nowhere}", dry_run=False)
    assert [(conf["storage"], conf["older_than"], conf["dry_run"]) for conf in confs] == sorted(
        [(here, "7d", True), (there, "30d", False)]
    )
    assert set(left_out) == {nowhere}
    variable["b"] = {"schedule": "@weekly", "storage": there, "min_age_hours": 1}
    variable["c"] = {"schedule": "@weekly", "storage": "s3://lake/other", "min_age_hours": 1}
    confs, left_out, root = chosen(f"{here} {there} {nowhere}", dry_run=False)
    assert [conf["storage"] for conf in confs] == [here]
    assert set(left_out) == {there, nowhere}, "only those that were asked for"
    assert root.startswith((here, there))


@pytest.mark.parametrize("spelled", ["FILE:///", "file:////", "file:///./", "local:///"])
def test_settings_count_however_the_place_is_spelled(
    dated: Dated, variable: dict[str, Any], spelled: str
) -> None:
    """They may say that nothing is deleted."""
    uri = dated.repo.uri
    storage = uri.replace("file:///", spelled) + "/"
    variable["a"] = {"schedule": "@daily", "storage": storage, "older_than": "7d"}
    confs, left_out, _ = chosen(uri, dry_run=False)
    assert [(conf["storage"], conf["older_than"], conf["dry_run"]) for conf in confs] == [(uri, "7d", True)]
    variable["b"] = {"schedule": "@weekly", "storage": uri, "older_than": "7d"}
    confs, left_out, _ = chosen(uri, dry_run=False)
    assert [conf["older_than"] for conf in confs] == ["7d"], "both say the same"
    variable["b"] |= {"older_than": "8d"}
    confs, left_out, _ = chosen(uri, dry_run=False)
    assert confs == []
    assert uri in left_out
