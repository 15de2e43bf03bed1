"""A Variable that cannot be read is an error: what it says may be what keeps a run from deleting."""

from __future__ import annotations

import traceback

import pytest
from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, UnavailableError

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
