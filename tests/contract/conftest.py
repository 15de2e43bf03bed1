from __future__ import annotations

from collections.abc import Iterator

import pytest

from dredge.storage import StorageOptions
from tests.support.azure_server import AzureServer
from tests.support.gcs import GcsServer, fake_gcs
from tests.support.objectstore import moto_server


@pytest.fixture(scope="session")
def moto_options() -> Iterator[StorageOptions]:
    with moto_server() as options:
        yield options


@pytest.fixture(scope="session")
def fake_gcs_options() -> Iterator[StorageOptions]:
    with fake_gcs() as options:
        yield options


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    with AzureServer() as server:
        yield server


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    with GcsServer() as server:
        yield server
