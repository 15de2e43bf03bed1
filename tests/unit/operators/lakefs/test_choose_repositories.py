"""What each repository's run is started with: the form's values, and those that the Variable has for it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.lakefs.many import LakeFSChooseRepositoriesOperator
from airflow_dredge.operators.lakefs.params import ALL_FORM, GC_SCHEDULES, gc_params
from airflow_dredge.operators.many import LEFT_OUT, SUMMARY_ROOT
from airflow_dredge.operators.params import params_of
from dredge.errors import ConfigError
from dredge.lakefs import Repository
from tests.support.lakefs_operators import Pushed

NAME = f"AIRFLOW_VAR_{GC_SCHEDULES.upper()}"
LAKE = {"schedule": "@hourly", "repository": "lake", "dry_run": False}


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    variable: Any = None,
    which: Any = None,
    read_only: Any = (),
    names: Any = ("lake", "pond"),
    **params: Any,
) -> tuple[list[dict[str, Any]], Pushed]:
    """What the task returns and pushes, for a server with the repositories lake and pond."""
    parts, pushed = chosen_parts(monkeypatch, variable, which, read_only, names, **params)
    return [run for part in parts for run in part], pushed


def chosen_parts(
    monkeypatch: pytest.MonkeyPatch,
    variable: Any = None,
    which: Any = None,
    read_only: Any = (),
    names: Any = ("lake", "pond"),
    **params: Any,
) -> tuple[list[list[dict[str, Any]]], Pushed]:
    """The same, in parts."""
    monkeypatch.delenv(NAME, raising=False)
    if variable is not None:
        monkeypatch.setenv(NAME, variable if isinstance(variable, str) else json.dumps(variable))
    operator = LakeFSChooseRepositoriesOperator(task_id="choose_repositories", which=which or {})
    found = [Repository(name, f"memory://choosing/{name}", "main", name in read_only) for name in names]
    operator.hook = SimpleNamespace(client=SimpleNamespace(repositories=lambda: found))
    operator.aws_conn_id = None
    pushed = Pushed()
    pushed.task_id = "choose_repositories"
    context: Any = {
        "ti": pushed,
        "params": {name: param.value for name, param in params_of(ALL_FORM, {}).items()} | params,
        "run_id": "manual__1",
        "dag_run": SimpleNamespace(dag_id="lakefs_gc_all"),
    }
    return operator.execute(context), pushed


def test_each_repository_is_started_with_the_forms_values(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, pushed = chosen(monkeypatch, min_age_hours=48.0)
    assert [run["conf"]["repository"] for run in runs] == ["lake", "pond"]
    assert [run["trigger_run_id"].rpartition("__")[0] for run in runs] == [
        "lakefs_gc_all__manual__1__lake",
        "lakefs_gc_all__manual__1__pond",
    ]
    assert {run["conf"]["min_age_hours"] for run in runs} == {48.0}
    assert pushed["choose_repositories", LEFT_OUT] == {}
    assert pushed["choose_repositories", SUMMARY_ROOT].startswith("memory://choosing/lake/")


def test_what_a_run_is_started_with_are_params_of_its_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, _ = chosen(monkeypatch, {"gc_lake": LAKE | {"min_age_hours": "30", "max_delete_objects": 7}})
    params = gc_params()
    for run in runs:
        assert run["conf"].keys() == params.keys() - {"check_only"}
        for name, value in run["conf"].items():
            params[name].resolve(value)
    assert (runs[0]["conf"]["min_age_hours"], runs[0]["conf"]["max_delete_objects"]) == (30.0, 7)


@pytest.mark.parametrize(
    ("form", "entry", "dry_run"),
    [
        (True, None, True),
        (False, None, False),
        (True, LAKE, True),
        (False, LAKE, False),
        (False, LAKE | {"dry_run": True}, True),
        (False, {"schedule": "@daily", "repository": "lake"}, True),
    ],
)
def test_a_run_deletes_only_when_neither_form_nor_variable_says_dry_run(
    monkeypatch: pytest.MonkeyPatch, form: bool, entry: Any, dry_run: bool
) -> None:
    runs, _ = chosen(monkeypatch, None if entry is None else {"gc_lake": entry}, dry_run=form)
    assert runs[0]["conf"]["dry_run"] is dry_run


def test_a_run_that_is_there_is_not_done_again_when_the_variable_says_something_else_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow would do it with what it was started with: delete, where it is to be a dry run now."""
    deletes, same, dry = (
        chosen(monkeypatch, {"gc_lake": LAKE | {"dry_run": dry_run}}, dry_run=False)[0]
        for dry_run in (False, False, True)
    )
    assert deletes == same
    assert deletes[0]["trigger_run_id"] != dry[0]["trigger_run_id"]
    assert deletes[1] == dry[1], "the other repository's settings are what they were"


def test_schedules_that_differ_about_a_repository_leave_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = {"often": LAKE, "clean": LAKE | {"schedule": "@weekly", "max_delete_objects": 5}}
    runs, pushed = chosen(monkeypatch, variable)
    assert [run["conf"]["repository"] for run in runs] == ["pond"]
    assert set(pushed["choose_repositories", LEFT_OUT]) == {"lake"}


def test_a_wrong_value_of_one_repository_leaves_out_that_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, pushed = chosen(monkeypatch, {"gc_lake": LAKE | {"min_age_hours": 1}})
    assert [run["conf"]["repository"] for run in runs] == ["pond"]
    assert set(pushed["choose_repositories", LEFT_OUT]) == {"lake"}


def test_an_unknown_name_in_the_settings_of_one_repository_starts_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError):
        chosen(monkeypatch, {"gc_lake": LAKE | {"keep_tag": True}})


def test_only_the_repositories_that_were_asked_for_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, _ = chosen(monkeypatch, which={"repositories": "*", "exclude": "la*", "summary_root": "None"})
    assert [run["conf"]["repository"] for run in runs] == ["pond"]


def test_where_a_repositorys_own_settings_cannot_be_read_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may say that it is a dry run."""
    with pytest.raises(ConfigError):
        chosen(monkeypatch, '{"gc_lake": {"dry_run": true}', dry_run=False)


def test_more_repositories_than_airflow_makes_tasks_of_a_list_are_collected_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"repo-{number:04}" for number in range(1030)]
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "300")
    parts, _ = chosen_parts(monkeypatch, names=names)
    assert len(parts) <= 300
    assert [run["conf"]["repository"] for part in parts for run in part] == names
    assert {len(part) for part in parts} <= {4, 2}


def test_each_repository_has_a_task_of_its_own_where_airflow_allows_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    assert [len(part) for part in chosen_parts(monkeypatch)[0]] == [1, 1]
    assert chosen_parts(monkeypatch, names=())[0] == []
