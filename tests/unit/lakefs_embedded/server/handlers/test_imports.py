"""Imports through the clients, over a real socket."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from lakefs.exceptions import ImportManagerException

from tests.support.lakefs_server import Lake, lakefs_server

SOON = timedelta(milliseconds=20)


@pytest.fixture
def lake(tmp_path: Path):  # type: ignore[no-untyped-def]
    with lakefs_server(tmp_path, local_import=True) as running:
        yield running


def fill(lake: Lake) -> str:
    """Put some files beside the namespaces; gives their folder's URI."""
    folder = Path(lake.base.removeprefix("local://")) / "warehouse"
    (folder / "deep").mkdir(parents=True)
    for name in ("one", "two", "deep/three"):
        (folder / name).write_bytes(name.encode())
    return f"local://{folder}"


def test_a_folder_is_imported_and_read_where_it_lies(lake: Lake) -> None:
    outside = fill(lake)
    branch = lake.repository("shop").branch("main")
    assert lake.sdk.config_api.get_config().storage_config.import_support
    done = branch.import_data("take it", metadata={"k": "v"}).prefix(f"{outside}/", "in/").run(SOON)
    assert (done.completed, done.ingested_objects) == (True, 3)
    assert done.commit.message == "take it"
    assert done.commit.metadata["k"] == "v"
    assert branch.object("in/deep/three").reader(mode="rb").read() == b"deep/three"
    assert branch.object("in/one").stat().physical_address == f"{outside}/one"


def test_a_source_outside_of_the_servers_folder_is_not_read(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    branch = lake.repository("shop").branch("main")
    with pytest.raises(ImportManagerException, match="invalid namespace"):
        branch.import_data().object(f"local://{tmp_path}/secret", "a").run(SOON)


def test_a_local_server_imports_only_when_it_was_told_to(tmp_path: Path) -> None:
    with lakefs_server(tmp_path) as lake:
        outside = fill(lake)
        lake.repository("shop")
        assert not lake.sdk.config_api.get_config().storage_config.import_support
        body = {
            "paths": [{"type": "object", "path": f"{outside}/one", "destination": "a"}],
            "commit": {"message": "m"},
        }
        response = lake.http("POST", "/repositories/shop/branches/main/import", json_body=body)
        assert (response.status, json.loads(response.data)["message"]) == (
            403,
            "import is not supported for this storage",
        )
