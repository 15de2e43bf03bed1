"""The bounds of the Variable `dredge_policy` hold for every run, whatever it was triggered with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Variable

from airflow_dredge.operators.icechunk.params import FORM as ICECHUNK
from airflow_dredge.operators.lakefs.params import FORM
from airflow_dredge.operators.run_check import POLICY, check_policy, present_variables
from dredge.errors import ConfigError, RefusedError, UnavailableError

ENV = f"AIRFLOW_VAR_{POLICY.upper()}"


def check(form: Any = FORM, **changed: Any) -> None:
    check_policy(form, {found.name: found.default for found in form} | changed)


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set what the Variable says."""
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


def test_a_policy_that_cannot_be_read_stops_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(Variable, "get", fail)
    with pytest.raises(UnavailableError):
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
