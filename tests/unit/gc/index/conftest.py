"""An index without a lake."""

from collections.abc import Iterator

import pytest

from dredge.storage import open_writer
from tests.support.index_parts import NAMESPACE, Kept
from tests.support.memory_store import forget_memory_store


@pytest.fixture
def kept() -> Iterator[Kept]:
    yield Kept(open_writer(f"{NAMESPACE}/_lakefs/retention/gc/dredge"))
    forget_memory_store("index-parts")
