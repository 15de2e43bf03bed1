from __future__ import annotations

from collections.abc import Iterator

import pytest

from dredge.lakefs import LakeFSClient
from dredge.lakefs import transport as transport_module
from tests.support.http import Script, scripted_server


@pytest.fixture
def server() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def client(server: Script) -> LakeFSClient:
    return LakeFSClient(server.endpoint, "key", "secret")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module.time, "sleep", lambda _: None)
