"""A run does what it was asked to do, or nothing: its conf is held against its Params before each task."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.failures import FAILURE
from airflow_dredge.operators.lakefs.params import FORM
from airflow_dredge.operators.run_check import RunCheck, checked_tasks
from dredge.errors import ConfigError, RefusedError
from tests.support.lakefs_operators import Pushed

ROOT = Path(__file__).resolve().parents[3]
REPORTING = {"save_report", "save_summary", "all_collected", "release_lease"}


@pytest.fixture(autouse=True)
def _no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_VAR_DREDGE_POLICY", raising=False)


def context(conf: Any, **params: Any) -> Any:
    """Return what a task of a run gets: its conf, and the Params that Airflow made of it."""
    defaults = {found.name: found.default for found in FORM} | {"repository": "lake"}
    return {
        "task": SimpleNamespace(task_id="acquire_lease"),
        "ti": Pushed(),
        "dag_run": SimpleNamespace(conf=conf),
        "params": defaults | params,
    }


@pytest.mark.parametrize("conf", [None, {}, {"repository": "lake"}, {"openlineage": {"parentRunId": "x"}}])
def test_a_conf_that_says_what_the_params_say_is_carried_out(conf: Any) -> None:
    RunCheck(FORM)(context(conf))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("max_delete_object", "max_delete_objects"),
        ("keep_tag", "keep_tags"),
        ("min-age-hours", "min_age_hours"),
    ],
)
def test_a_name_that_no_param_has_stops_the_run_and_its_page_says_so(name: str, nearest: str) -> None:
    given = context({"repository": "lake", name: 1})
    with pytest.raises(ConfigError) as raised:
        RunCheck(FORM)(given)
    for words in (str(raised.value), given["ti"]["save_report", FAILURE]):
        assert f" {name};" in words
        assert f" {nearest};" in words


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ({"dry_run": True}, {"dry_run": False}),
        ({"max_delete_objects": 3}, {"max_delete_objects": None}),
        ({"max_delete_objects": None}, {"max_delete_objects": 3}),
        ({"min_age_hours": 48}, {"min_age_hours": 25}),
        ({"run_root": "s3://ops/runs"}, {}),
    ],
)
def test_a_conf_that_changes_no_param_stops_the_run(asked: dict[str, Any], used: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(asked))):
        RunCheck(FORM)(context(asked, **used))


def test_the_same_value_in_another_form_is_the_same() -> None:
    asked = {"dry_run": "False", "min_age_hours": "48", "max_delete_objects": ""}
    RunCheck(FORM)(context(asked, dry_run=False, min_age_hours=48, max_delete_objects=None))


def test_a_param_that_does_not_fit_stops_the_run_before_its_first_task() -> None:
    with pytest.raises(ConfigError):
        RunCheck(FORM)(context({}, min_age_hours=3))


def test_the_policy_holds_for_the_params_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_DREDGE_POLICY", '{"max_delete_objects": {"maximum": 10}}')
    RunCheck(FORM)(context({}, max_delete_objects=10))
    with pytest.raises(RefusedError):
        RunCheck(FORM)(context({}, max_delete_objects=11))


def test_every_task_of_every_dag_is_checked_but_those_that_report_and_clean_up() -> None:
    """Also later ones: who may mark the first task as successful would go past its check."""
    from airflow.dag_processing.dagbag import DagBag

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bag = DagBag(dag_folder=str(ROOT / "dags"))
    assert bag.import_errors == {}
    assert len(bag.dags) >= 10
    for dag in bag.dags.values():
        for task in dag.tasks:
            kwargs = task.partial_kwargs if task.is_mapped else {"pre_execute": task._pre_execute_hook}
            check = kwargs["pre_execute"]
            if task.task_id in REPORTING:
                assert check is None
            else:
                assert isinstance(check, RunCheck)
                assert {found.name for found in check.form} == set(dag.params), dag.dag_id


def test_a_dag_takes_airflows_arguments_for_every_task_and_durations_in_seconds() -> None:
    own = {"pool": "gc", "queue": "spark", "priority_weight": 7, "execution_timeout": 3600, "retries": 5}
    found = checked_tasks(FORM, {"retries": 3, "repository": "lake"}, own)
    assert found.pop("pre_execute") == RunCheck(FORM)
    assert found == own | {"execution_timeout": timedelta(hours=1), "repository": "lake"}


@pytest.mark.parametrize("name", ["pre_execute", "trigger_rule", "depends_on_past", "pol", "repository"])
def test_what_makes_a_run_safe_and_words_that_airflow_lacks_are_no_such_arguments(name: str) -> None:
    with pytest.raises(TypeError):
        checked_tasks(FORM, {}, {name: None})
