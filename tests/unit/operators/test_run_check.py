"""Checks of a run before each of its tasks: conf, Params, policy, and the Variables behind it."""

import json
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from airflow_dredge.operators.failures import FAILURE
from airflow_dredge.operators.icechunk.params import FORM as ICECHUNK
from airflow_dredge.operators.lakefs.params import FORM
from airflow_dredge.operators.run_check import (
    POLICY,
    RunCheck,
    check_policy,
    present_variables,
    task_arguments,
)
from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, RefusedError, UnavailableError
from tests.support.lakefs_operators import Pushed

NAME = "said_by_somebody"


def test_what_a_variable_says_and_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"AIRFLOW_VAR_{NAME.upper()}", raising=False)
    assert json_variable(NAME) is None
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", '{"a": [1]}')
    assert json_variable(NAME) == {"a": [1]}


def test_what_a_variable_says_is_hidden_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its name: Airflow hides what is called a secret."""
    hidden: list[tuple[object, ...]] = []
    monkeypatch.setattr("airflow_dredge.operators.variables.mask_secret", lambda *said: hidden.append(said))
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", '{"a": [1]}')
    json_variable(NAME)
    assert hidden == [('{"a": [1]}', NAME)]


@pytest.mark.parametrize(
    "text", ['{"a": {}, "b": {}, "a": {}}', '[{"a": {"dry_run": true, "dry_run": false}}]']
)
def test_a_name_that_is_there_twice_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """One of the two would be gone without a word, and it may be the one that deletes nothing."""
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", text)
    with pytest.raises(ConfigError):
        json_variable(NAME)


@pytest.mark.parametrize(
    ("error", "family"),
    [(OSError("hunter2"), UnavailableError), (AirflowSecretsBackendAccessDenied(NAME), ConfigError)],
)
def test_an_error_of_the_look_up_is_not_a_missing_variable(
    monkeypatch: pytest.MonkeyPatch, error: Exception, family: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Variable, "get", fail)
    with pytest.raises(family) as raised:
        json_variable(NAME)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value)), "a task's log has all of it"


ENV = f"AIRFLOW_VAR_{POLICY.upper()}"


def check(form: Any = FORM, **changed: Any) -> None:
    check_policy(form, {found.name: found.default for found in form} | changed)


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda **said: monkeypatch.setenv(ENV, json.dumps(said))


def test_without_a_policy_every_value_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV, raising=False)
    check(approval="never", dry_run=False)


@pytest.mark.parametrize(
    ("name", "bounds", "allowed", "refused"),
    [
        ("approval", {"fixed": "always"}, ["always"], ["never", "over_limits"]),
        ("approval", {"allowed": ["always", "over_limits"]}, ["always", "over_limits"], ["never"]),
        ("approvers", {"fixed": "ann,ben"}, ["ann,ben"], [None, "ann", "ann,ben,eve"]),
        ("max_delete_objects", {"maximum": 100}, [0, 100], [101, None]),
        ("max_delete_percent", {"maximum": 5}, [5.0], [5.1, None]),
        ("min_age_hours", {"minimum": 48}, [48.0, 72.0], [25.0]),
        ("grace_hours", {"minimum": 48}, [48.0, 72.0], [20.0, None]),
        ("grace_hours", {"minimum": 20}, [20.0, None], [19.0]),
        ("unsafe_grace_seconds", {"fixed": None}, [None], [0.0, 259200.0]),
        ("keep_runs_days", {"minimum": 30, "maximum": 90}, [30.0, 90.0], [29.0, 91.0, None]),
        ("verify_sample_size", {"minimum": 1000}, [1000, None], [0]),
        ("run_root", {"fixed": None}, [None], ["s3://elsewhere"]),
        ("inventory", {"fixed": None}, [None], ["s3://elsewhere/manifest.json"]),
        ("dry_run", {"fixed": True}, [True], [False]),
    ],
)
def test_a_run_within_its_bounds_goes_on_and_any_other_is_refused(
    policy: Any, name: str, bounds: dict[str, Any], allowed: list[Any], refused: list[Any]
) -> None:
    policy(**{name: bounds})
    for value in allowed:
        check(**{name: value})
    for value in refused:
        with pytest.raises(RefusedError):
            check(**{name: value})


def test_an_unsafe_grace_does_not_go_below_the_minimum_grace(policy: Any) -> None:
    policy(grace_hours={"minimum": 48})
    check(FORM, grace_hours=None, unsafe_grace_seconds=48 * 3600.0)
    with pytest.raises(RefusedError, match="grace_hours"):
        check(FORM, grace_hours=72.0, unsafe_grace_seconds=0.0)


@pytest.mark.parametrize("form", [FORM, ICECHUNK])
def test_an_unsafe_age_does_not_go_below_the_minimum_age(policy: Any, form: Any) -> None:
    policy(min_age_hours={"minimum": 48})
    check(form, min_age_hours=48.0)
    check(form, min_age_hours=25.0, unsafe_min_age_seconds=48 * 3600.0)
    with pytest.raises(RefusedError):
        check(form, min_age_hours=48.0, unsafe_min_age_seconds=1.0)


@pytest.mark.parametrize(
    "said",
    [
        "null",
        "[]",
        "{",
        '{"max_delete_object": {"maximum": 1}}',
        '{"max_delete_objects": {"max": 1}}',
        '{"max_delete_objects": {}}',
        '{"max_delete_objects": 1}',
        '{"max_delete_objects": {"maximum": "1"}}',
        '{"max_delete_objects": {"maximum": null}}',
        '{"max_delete_objects": {"maximum": true}}',
        '{"approval": {"minimum": 1}}',
        '{"approval": {"allowed": "always"}}',
        '{"approval": {"allowed": []}}',
        '{"approval": {"fixed": "sometimes"}}',
        '{"max_delete_objects": {"maximum": 1}, "max_delete_objects": {"maximum": 9}}',
    ],
)
def test_a_policy_that_cannot_be_understood_stops_every_run(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv(ENV, said)
    with pytest.raises(ConfigError):
        check()


def test_variables_that_bind_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Variable of schedules binds the repositories that it names; one that exists is never taken for missing."""
    schedules = "AIRFLOW_VAR_SCHEDULES_OF_TEST"
    monkeypatch.delenv(ENV, raising=False)
    monkeypatch.delenv(schedules, raising=False)
    name = "schedules_of_test"
    assert present_variables(name, "repository", "lake") == {POLICY: False, name: False}
    monkeypatch.setenv(ENV, "{}")
    monkeypatch.setenv(schedules, '{"a": {"schedule": "@daily", "repository": "lake/"}}')
    assert present_variables(name, "repository", "lake") == {POLICY: True, name: True}
    assert present_variables(name, "repository", "other") == {POLICY: True, name: None}


ROOT = Path(__file__).resolve().parents[3]
REPORTING = {"save_report", "save_summary", "all_collected", "release_lease"}


@pytest.fixture(autouse=True)
def _no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_VAR_DREDGE_POLICY", raising=False)


def context(conf: Any, **params: Any) -> Any:
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
    found = task_arguments(FORM, {"retries": 3, "repository": "lake"}, own)
    assert found.pop("pre_execute") == RunCheck(FORM)
    assert found == own | {"execution_timeout": timedelta(hours=1), "repository": "lake"}


@pytest.mark.parametrize("name", ["pre_execute", "trigger_rule", "depends_on_past", "pol", "repository"])
def test_what_makes_a_run_safe_and_words_that_airflow_lacks_are_no_such_arguments(name: str) -> None:
    with pytest.raises(TypeError):
        task_arguments(FORM, {}, {name: None})
