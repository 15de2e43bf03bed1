"""A Variable that cannot be read is an error: what it says may be what keeps a run from deleting."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, VariableResult

from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, UnavailableError
from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]
NAME = "said_by_somebody"


class Server:
    """Airflow's server, as a task reaches it."""

    def __init__(self, answer: Any, raises: bool = False) -> None:
        self.answer, self.raises = answer, raises

    def send(self, _message: Any) -> Any:
        if self.raises and isinstance(self.answer, ErrorResponse):
            raise AirflowRuntimeError(self.answer)
        return self.answer


def test_what_a_variable_says_and_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"AIRFLOW_VAR_{NAME.upper()}", raising=False)
    assert json_variable(NAME) is None
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", '{"a": [1]}')
    assert json_variable(NAME) == {"a": [1]}


@pytest.mark.parametrize("text", ["{", "", "dry_run: true"])
def test_a_text_that_is_no_json_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(f"AIRFLOW_VAR_{NAME.upper()}", text)
    with pytest.raises(ConfigError, match=f"Variable {NAME} is no JSON"):
        json_variable(NAME)


def test_a_task_is_told_what_the_server_has(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(VariableResult(key=NAME, value="[7]"))
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", server, raising=False)
    assert json_variable(NAME) == [7]


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("error", [*ErrorType])
def test_only_a_server_that_says_so_has_no_such_variable(
    monkeypatch: pytest.MonkeyPatch, error: ErrorType, raises: bool
) -> None:
    monkeypatch.setattr(
        task_runner, "SUPERVISOR_COMMS", Server(ErrorResponse(error=error), raises), raising=False
    )
    if error is ErrorType.VARIABLE_NOT_FOUND:
        assert json_variable(NAME) is None
    else:
        with pytest.raises(Exception, match=r"does not tell|denied"):  # Airflow tells some of them itself
            json_variable(NAME)


def test_an_answer_that_is_none_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Server(None), raising=False)
    with pytest.raises(UnavailableError, match="nothing was started"):
        json_variable(NAME)
