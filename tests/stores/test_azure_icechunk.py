"""An Icechunk repository of spec 2 on Azure is expired through the library, and restored."""

from datetime import UTC, datetime

import pytest

from dredge.icechunk.expiration.restore import restore_expiration
from dredge.icechunk.library import library_storage
from dredge.icechunk.repository import read_history
from dredge.storage import StorageOptions, open_reader
from tests.support.azure import make_container
from tests.support.icechunk import Graph, build
from tests.support.icechunk_expiring import expire

pytestmark = pytest.mark.stores


def test_an_expiration_on_azure_is_applied_and_restored(azure_options: StorageOptions) -> None:
    container = make_container(azure_options)
    uri = f"{container.uri}/weather"
    line = Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "2"})
    ids = build(library_storage(uri, azure_options), line, 2, chunks=False)
    reader = open_reader(uri, azure_options)
    before = reader.get("repo")

    done = expire(uri, datetime.now(UTC), options=azure_options)
    assert set(done.plan.released) == {ids["1"]}
    assert ids["1"] not in read_history(reader).snapshots
    assert restore_expiration(uri, done.expiration_id, options=azure_options).snapshots == 1
    assert reader.get("repo") == before
