"""One server per module, one repository per test; profile `design`, which follows S3 where lakeFS does not."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from lakefs_embedded.catalog import Settings
from tests.support.lakefs_server import Lake, lakefs_server
from tests.support.s3_gateway import s3_client


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakefs_server(tmp_path_factory.mktemp("lake"), catalog=Settings(profile="design")) as running:
        yield running


@pytest.fixture(scope="module")
def s3(lake: Lake) -> Any:
    return s3_client(lake)


@pytest.fixture
def repo(lake: Lake) -> str:
    name = f"repo-{uuid.uuid4().hex[:8]}"
    lake.server.catalog.repositories.create_repository(name, lake.namespace(name))
    return name
