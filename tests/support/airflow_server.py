"""Airflow's server as a task reaches it, for tests: an answer for each kind of question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from airflow.sdk.bases.secrets_backend import BaseSecretsBackend
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetVariableKeys, VariableKeysResult

NO_CONNECTION = ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
NO_VARIABLE = ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
DOWN = ErrorResponse(error=ErrorType.API_SERVER_ERROR)


class Server:
    """What it answers, and what it was asked.

    :param answer: to every question but one about names
    :param names: of its Variables, or an answer that is none
    :param raises: whether errors come as exceptions, as they do from a real one's
    """

    def __init__(self, answer: Any, names: Any = (), raises: bool = False) -> None:
        self.answer, self.names, self.raises = answer, names, raises
        self.asked: list[Any] = []

    def send(self, message: Any) -> Any:
        """Answer."""
        self.asked.append(message)
        answer = self.answer
        if isinstance(message, GetVariableKeys):
            answer = self.names
            if isinstance(answer, Sequence):
                answer = VariableKeysResult(keys=list(answer), total_entries=len(answer))
        if self.raises and isinstance(answer, ErrorResponse):
            raise AirflowRuntimeError(answer)
        return answer

    def asked_for(self, kind: str) -> int:
        """How often it was asked a question of a kind."""
        return sum(type(message).__name__ == kind for message in self.asked)

    def reached_by(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be the server of this process."""
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", self, raising=False)


class BrokenVault(BaseSecretsBackend):
    """A place of secrets of the workers' own, which does not answer."""

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str | None:
        """Fail."""
        raise OSError("hunter2: no route to host")

    def get_variable(self, key: str, team_name: str | None = None) -> str | None:
        """Fail."""
        raise OSError("hunter2: no route to host")


class EmptyVault(BrokenVault):
    """One that has nothing."""

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str | None:
        """Have none."""
        return None

    def get_variable(self, key: str, team_name: str | None = None) -> str | None:
        """Have none."""
        return None


class VaultOfOtherThings(BaseSecretsBackend):
    """One that has neither connections nor Variables."""


def use_vault(monkeypatch: pytest.MonkeyPatch, vault: type[BaseSecretsBackend]) -> None:
    """Have Airflow ask a vault first, as its setting `[secrets] backend` says."""
    from airflow.sdk import configuration

    monkeypatch.setattr(configuration, "_secrets_backend_cache", {})
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", f"{vault.__module__}.{vault.__qualname__}")
