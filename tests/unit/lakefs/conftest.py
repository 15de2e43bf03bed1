from collections.abc import Iterator

import pytest

from dredge.lakefs import LakeFSClient
from tests.support.http import Script, scripted_server


@pytest.fixture
def server() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def client(server: Script) -> LakeFSClient:
    return LakeFSClient(server.endpoint, "key", "secret")


@pytest.fixture(autouse=True)
def quick(no_pauses: None) -> None:
    """Tries follow each other at once."""
