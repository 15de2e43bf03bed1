from collections.abc import Iterator

import pytest

from dredge.storage import StorageOptions
from tests.support.objectstore import moto_server


@pytest.fixture(scope="session")
def moto_options() -> Iterator[StorageOptions]:
    with moto_server() as options:
        yield options


@pytest.fixture(scope="module", autouse=True)
def in_order() -> None:
    """Parallel calls are made in threads here."""
