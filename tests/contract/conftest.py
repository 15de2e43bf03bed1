from collections.abc import Iterator

import pytest

from dredge.storage import StorageOptions, open_deleter, open_reader, open_writer
from tests.support.azure_server import AzureServer
from tests.support.gcs import GcsServer, fake_gcs
from tests.support.memory_store import forget_memory_store
from tests.support.object_stores import KINDS, Stores, new_folder
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


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    uri, options = new_folder(request, request.param)
    clients = (open_reader(uri, options), open_writer(uri, options), open_deleter(uri, options))
    yield Stores(request.param, uri, options, *clients)
    if request.param == "memory":
        forget_memory_store(uri.split("/")[2])
