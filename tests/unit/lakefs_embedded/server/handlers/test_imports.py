"""Imports through the clients, over a real socket."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import lakefs_sdk
import pytest
from lakefs.exceptions import ImportManagerException
from lakefs_sdk.exceptions import ApiException

from lakefs_embedded.auth import Statement
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


def test_the_errors_of_imports(lake: Lake) -> None:
    outside = fill(lake)
    repository = lake.repository("shop")
    path = "/repositories/shop/branches/main/import"

    def start(kind: str, source: str, destination: str, where: str = path) -> tuple[int, str]:
        body = {
            "paths": [{"type": kind, "path": source, "destination": destination}],
            "commit": {"message": "m"},
        }
        response = lake.http("POST", where, json_body=body)
        return response.status, str(json.loads(response.data).get("message", ""))

    assert start("folder", f"{outside}/", "in/")[0] == 400
    assert start("object", f"{repository.properties.storage_namespace}/data/x", "in")[0] == 400
    assert start("object", f"{outside}/one", "a", path.replace("main", "nowhere")) == (
        404,
        "branch not found",
    )
    assert start("object", f"{outside}/one", "a", path.replace("shop", "no-such")) == (
        404,
        "repository not found",
    )
    imports = lake.sdk.import_api
    for call in (imports.import_status, imports.import_cancel):
        with pytest.raises(ApiException) as refused:
            call("shop", "main", "nobody")
        assert refused.value.status == 404
    done = imports.import_start(
        "shop",
        "main",
        lakefs_sdk.ImportCreation(
            paths=[lakefs_sdk.ImportLocation(type="object", path=f"{outside}/one", destination="a")],
            commit=lakefs_sdk.CommitCreation(message="m"),
        ),
    )
    while not imports.import_status("shop", "main", done.id).completed:
        pass
    with pytest.raises(ApiException) as refused:
        imports.import_cancel("shop", "main", done.id)
    assert refused.value.status == 409


def test_a_source_outside_of_the_servers_folder_is_not_read(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    branch = lake.repository("shop").branch("main")
    with pytest.raises(ImportManagerException, match="invalid namespace"):
        branch.import_data().object(f"local://{tmp_path}/secret", "a").run(SOON)


def test_each_source_and_each_destination_needs_its_right(lake: Lake) -> None:
    outside = fill(lake)
    lake.repository("shop")
    directory = lake.server.accounts.directory
    directory.users.create("bob")
    directory.credentials.add("bob", "BOBKEY", "s")
    shop = "arn:lakefs:fs:::repository/shop"
    held = [
        Statement("allow", ("fs:CreateCommit", "fs:WriteObject"), f"{shop}/branch/main"),
        Statement("allow", ("fs:WriteObject",), f"{shop}/object/in/*"),
        Statement("allow", ("fs:ImportFromStorage",), f"arn:lakefs:fs:::namespace/{outside}/*"),
    ]
    directory.policies.create("import", tuple(held))
    directory.policies.attach_to_user("import", "bob")

    def start(source: str, destination: str) -> int:
        body = {
            "paths": [{"type": "object", "path": source, "destination": destination}],
            "commit": {"message": "m"},
        }
        return lake.http(
            "POST",
            "/repositories/shop/branches/main/import",
            json_body=body,
            credentials=("BOBKEY", "s"),
        ).status

    assert start(f"{outside}/one", "in/a") == 202
    assert start(f"{outside}/one", "out/a") == 401
    assert start(f"{lake.base}/other/one", "in/a") == 401
    for missing in range(3):
        directory.policies.update("import", tuple(held[:missing] + held[missing + 1 :]))
        assert start(f"{outside}/one", "in/a") == 401


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
