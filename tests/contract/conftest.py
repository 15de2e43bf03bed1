from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dredge.storage import StorageOptions, open_deleter, open_reader, open_writer
from tests.support.azure import make_container
from tests.support.azure_server import AzureServer
from tests.support.gcs import GcsServer, fake_gcs, make_gcs_bucket
from tests.support.memory_store import forget_memory_store
from tests.support.object_stores import Stores
from tests.support.objectstore import make_bucket, moto_server


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


@pytest.fixture(
    params=[
        "local",
        "memory",
        "s3",
        "gcs",
        pytest.param("gcs_emulator", marks=pytest.mark.stores),
        pytest.param("azure", marks=pytest.mark.stores),
    ]
)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    options = StorageOptions()
    if request.param == "local":
        uri = f"file://{tmp_path}/lake/repo"
    elif request.param == "memory":
        uri = f"memory://{uuid.uuid4().hex}/lake/repo"
    elif request.param == "azure":
        options = request.getfixturevalue("azure_options")
        uri = f"{make_container(options).uri}/lake/repo"
    elif request.param == "gcs":
        server = request.getfixturevalue("gcs_server")
        options, uri = server.options, f"{server.bucket()}/lake/repo"
    elif request.param == "gcs_emulator":
        options = request.getfixturevalue("fake_gcs_options")
        uri = f"{make_gcs_bucket(options)}/lake/repo"
    else:
        options = request.getfixturevalue("moto_options")
        uri = f"{make_bucket(options).uri}/lake/repo"
    yield Stores(
        request.param, uri, open_reader(uri, options), open_writer(uri, options), open_deleter(uri, options)
    )
    if request.param == "memory":
        forget_memory_store(uri.split("/")[2])
