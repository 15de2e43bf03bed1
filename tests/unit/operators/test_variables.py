"""A Variable that cannot be read is an error: what it says may be what keeps a run from deleting."""

from __future__ import annotations

import traceback

import pytest
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, GetVariableKeys, VariableResult
from airflow.secrets.environment_variables import EnvironmentVariablesBackend

from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, UnavailableError
from tests.support.airflow_server import (
    DOWN,
    NO_VARIABLE,
    BrokenVault,
    EmptyVault,
    Server,
    VaultOfOtherThings,
    use_vault,
)

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


@pytest.mark.parametrize("text", ["{", "", "dry_run: true", "null"])
def test_a_text_that_is_no_json_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", text)
    with pytest.raises(ConfigError):
        json_variable(NAME)


@pytest.mark.parametrize(
    "text", ['{"a": {}, "b": {}, "a": {}}', '[{"a": {"dry_run": true, "dry_run": false}}]']
)
def test_a_name_that_is_there_twice_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """One of the two would be gone without a word, and it may be the one that deletes nothing."""
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", text)
    with pytest.raises(ConfigError):
        json_variable(NAME)


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("error", [*ErrorType])
def test_only_a_server_that_says_so_has_no_such_variable(
    monkeypatch: pytest.MonkeyPatch, error: ErrorType, raises: bool
) -> None:
    Server(ErrorResponse(error=error), [f"{NAME}_of_others"], raises).reached_by(monkeypatch)
    if error is ErrorType.VARIABLE_NOT_FOUND:
        assert json_variable(NAME) is None
    else:
        with pytest.raises((UnavailableError, ConfigError), match=rf"does not (tell|let).*{NAME}"):
            json_variable(NAME)


def test_a_later_place_is_not_asked_when_an_earlier_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Server(VariableResult(key=NAME, value="[7]")).reached_by(monkeypatch)
    use_vault(monkeypatch, BrokenVault)
    with pytest.raises(UnavailableError):
        json_variable(NAME)


def test_a_place_that_has_it_is_asked_after_those_that_have_it_not(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(VariableResult(key=NAME, value="[7]")).reached_by(monkeypatch)
    for vault in (EmptyVault, VaultOfOtherThings):
        use_vault(monkeypatch, vault)
        assert json_variable(NAME) == [7]


def test_a_server_with_many_variables_is_asked_for_the_names_that_begin_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It tells so many at once and no more."""
    server = Server(NO_VARIABLE)
    server.reached_by(monkeypatch)
    assert json_variable(NAME) is None
    assert [asked.prefix for asked in server.asked if isinstance(asked, GetVariableKeys)] == [NAME]


def test_what_one_place_does_not_let_a_task_read_is_not_taken_from_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Denying(EmptyVault):
        def get_variable(self, key: str, team_name: str | None = None) -> str | None:
            raise AirflowSecretsBackendAccessDenied(key)

    monkeypatch.setattr(
        "airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded",
        lambda: [EmptyVault(), Denying(), EnvironmentVariablesBackend()],
    )
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", "[7]")
    with pytest.raises(ConfigError):
        json_variable(NAME)


def test_an_answer_that_is_none_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(None).reached_by(monkeypatch)
    with pytest.raises(UnavailableError):
        json_variable(NAME)


@pytest.mark.parametrize(
    "names", [pytest.param(DOWN, id="without-its-database"), pytest.param([NAME], id="without-its-key")]
)
def test_a_server_that_cannot_read_what_it_has_does_not_say_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch, names: object
) -> None:
    """It answers "not found" to either."""
    Server(NO_VARIABLE, names).reached_by(monkeypatch)
    with pytest.raises(UnavailableError):
        json_variable(NAME)


@pytest.mark.parametrize("is_task", [True, False])
def test_a_vault_that_does_not_answer_does_not_say_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch, is_task: bool
) -> None:
    if is_task:
        Server(NO_VARIABLE).reached_by(monkeypatch)
    for empty in (EmptyVault, VaultOfOtherThings):
        use_vault(monkeypatch, empty)
        assert json_variable(NAME) is None
    use_vault(monkeypatch, BrokenVault)
    with pytest.raises(UnavailableError) as raised:
        json_variable(NAME)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value)), "a task's log has all of it"
