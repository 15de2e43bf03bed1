"""Secrets backends of Airflow, for tests."""

import pytest
from airflow.sdk.bases.secrets_backend import BaseSecretsBackend


class BrokenVault(BaseSecretsBackend):
    """A secrets backend of the workers, without an answer."""

    def get_conn_value(self, conn_id: str, team_name: str | None = None) -> str | None:
        raise OSError("hunter2: no route to host")

    def get_variable(self, key: str, team_name: str | None = None) -> str | None:
        raise OSError("hunter2: no route to host")


def use_vault(monkeypatch: pytest.MonkeyPatch, vault: type[BaseSecretsBackend]) -> None:
    """Configure a vault as Airflow's first secrets backend (`[secrets] backend`)."""
    from airflow.sdk import configuration

    monkeypatch.setattr(configuration, "_secrets_backend_cache", {})
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", f"{vault.__module__}.{vault.__qualname__}")
