"""Objects written over HTTP: upload, stage, link, copy, delete, metadata."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

import lakefs
import lakefs_sdk
import pytest

from lakefs_embedded.catalog import Settings
from tests.support.lakefs_server import Lake, lakefs_server

# Facts 1.3: names that servers keep literally, and others that clients and proxies like to change.
ODD_NAMES = [
    "a b",
    " leading and trailing ",
    "per%20cent",
    "slash%2Fcoded",
    "plus+plus",
    "quote'\"`",
    "amp&lt;<>",
    "back\\slash",
    "hash#frag",
    "question?x=1",
    "comma,semi;colon:",
    "trailing/",
    "double//slash",
    "./dot/../dots",
    "/leading",
    "nfc-é",
    "nfd-e\u0301",
    "emoji-🦆",
    "nul-\u0001-control",
    "line\nbreak",
    "tab\there",
    "\u2028separator",
    "%",
    "%zz",
    "x" * 1024,
    "_lakefs/mine",
    "data/mine",
]


@pytest.fixture
def main(lake: Lake) -> lakefs.Branch:
    return lake.repository("shop").branch("main")


def test_names_that_look_alike_are_different_objects(main: lakefs.Branch) -> None:
    for name in ODD_NAMES:
        main.object(name).upload(name.encode())
    found = [each.path for each in main.objects(amount=7)]
    assert found == sorted(ODD_NAMES, key=str.encode)
    assert all(main.object(name).reader().read() == name.encode() for name in ODD_NAMES)
    main.commit("odd")
    main.delete_objects(ODD_NAMES)
    assert [each.path for each in main.uncommitted()] == found


def test_a_file_goes_up_as_a_form_through_the_sdk(main: lakefs.Branch, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG" * 1000)
    stats = lake.sdk.objects_api.upload_object("shop", "main", "p", content=str(tmp_path / "picture.png"))
    assert (stats.size_bytes, stats.content_type) == (4000, "image/png")
    assert main.object("p").reader().read() == b"\x89PNG" * 1000


def test_a_handed_out_address_is_linked(main: lakefs.Branch, lake: Lake) -> None:
    location = lake.sdk.staging_api.get_physical_address("shop", "main", "new")
    key = location.physical_address.removeprefix(lake.namespace("shop") + "/")
    assert key.startswith("data/")
    assert len(key.partition(",")[2]) == 43
    lake.writer("shop").put(key, b"direct")
    staged = lakefs_sdk.StagingMetadata(
        staging=location, checksum='"etag"', size_bytes=6, user_metadata={"k": "v"}, content_type="text/plain"
    )
    stats = lake.sdk.staging_api.link_physical_address("shop", "main", "new", staged)
    assert (stats.checksum, stats.metadata) == ("etag", {"k": "v"})
    assert stats.physical_address == location.physical_address
    assert main.object("new").reader().read() == b"direct"


def test_a_transaction_commits_and_merges_or_leaves_nothing(main: lakefs.Branch) -> None:
    with main.transact(commit_message="tx") as tx:
        tx.object("a").upload(b"x")
    assert main.object("a").reader().read() == b"x"
    with suppress(RuntimeError), main.transact(commit_message="tx") as tx:
        tx.object("b").upload(b"x")
        raise RuntimeError
    assert [each.path for each in main.objects()] == ["a"]
    assert [each.id for each in lakefs.Repository("shop", main._client).branches(show_hidden=True)] == [
        "main"
    ]


@pytest.mark.parametrize("profile", ["lakefs", "design"])
@pytest.mark.parametrize(
    ("address", "in_lakefs"),
    [("gs://bucket/x", 400), ("s3a://bucket/x", 400), ("/x", 400), ("local://x/%zz", 500), ("plain", 500)],
)
def test_an_address_of_another_kind_of_store_is_not_staged(
    tmp_path: Path, profile: Literal["lakefs", "design"], address: str, in_lakefs: int
) -> None:
    with lakefs_server(tmp_path, catalog=Settings(profile=profile)) as lake:
        lake.repository("shop")
        body = {"physical_address": address, "checksum": "c", "size_bytes": 1}
        url = "/repositories/shop/branches/main/objects"
        answer = lake.http("PUT", url, query={"path": "a"}, json_body=body)
        assert answer.status == (in_lakefs if profile == "lakefs" else 400)
        assert lake.sdk.objects_api.list_objects("shop", "main").results == []
