"""One running server per test, with objects in a folder and metadata in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lakefs_server import Lake, lakefs_server, lakefs_servers

__all__ = ["lake", "lakefs_servers", "shared_lake"]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakefs_server(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One server for a whole module: for tests that change nothing outside a repository of their own."""
    with lakefs_server(tmp_path_factory.mktemp("lake")) as running:
        yield running
