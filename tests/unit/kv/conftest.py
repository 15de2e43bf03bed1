from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dynamodb import dynamodb_server
from tests.support.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync=False) as running:
        yield running


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with dynamodb_server() as running:
        yield running


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
