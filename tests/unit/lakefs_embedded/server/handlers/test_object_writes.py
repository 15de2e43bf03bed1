"""Objects written over HTTP: upload, stage, link, copy, delete, metadata."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import lakefs
import lakefs_sdk
import pytest
from lakefs.exceptions import ObjectExistsException

from lakefs_embedded.catalog import Settings
from tests.support.lakefs_server import Clock, Lake, lakefs_server

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


def bytes_of(lake: Lake, address: str) -> bytes:
    """What lies at a physical address, past the server."""
    return lake.writer("shop").get(address.removeprefix(lake.namespace("shop") + "/"))


def test_an_uploaded_object_reads_back_with_what_came_with_it(main: lakefs.Branch, lake: Lake) -> None:
    stats = main.object("a/b").upload(b"bytes", content_type="text/x", metadata={"Key": "value é"}).stat()
    assert stats.checksum == hashlib.md5(b"bytes").hexdigest()
    assert (stats.size_bytes, stats.content_type, stats.metadata) == (5, "text/x", {"key": "value é"})
    assert main.object("a/b").reader().read() == b"bytes"
    assert bytes_of(lake, stats.physical_address) == b"bytes"


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


def chunks(size: int, count: int) -> Iterator[bytes]:
    for number in range(count):
        yield bytes([number % 256]) * size


def test_a_chunked_upload_of_unknown_length_is_whole(main: lakefs.Branch, lake: Lake) -> None:
    path = "/repositories/shop/branches/main/objects"
    answer = lake.http("POST", path, query={"path": "big"}, body=chunks(100_000, 100))
    content = b"".join(chunks(100_000, 100))
    assert answer.json()["checksum"] == hashlib.md5(content).hexdigest()
    assert answer.json()["size_bytes"] == len(content)
    assert main.object("big").reader().read() == content


def test_exclusive_creation_fails_when_the_path_exists(main: lakefs.Branch, lake: Lake) -> None:
    main.object("a").upload(b"1", mode="xb")
    with pytest.raises(ObjectExistsException):
        main.object("a").upload(b"2", mode="xb")
    answer = lake.http(
        "POST",
        "/repositories/shop/branches/main/objects",
        query={"path": "a"},
        body=b"2",
        headers={"If-None-Match": "*"},
    )
    assert (answer.status, answer.json()) == (412, {"message": "path already exists"})
    assert main.object("a").reader().read() == b"1"


@pytest.mark.parametrize(
    ("header", "status"), [({"If-None-Match": '"abc"'}, 400), ({"If-Match": '"abc"'}, 501)]
)
def test_conditions_that_are_not_kept_are_refused(
    main: lakefs.Branch, lake: Lake, header: dict[str, str], status: int
) -> None:
    path = "/repositories/shop/branches/main/objects"
    assert lake.http("POST", path, query={"path": "a"}, body=b"x", headers=header).status == status
    assert list(main.objects()) == []


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "other"}, "invalid address signature"),
        ({"signature": "A" * 43}, "invalid address signature"),
        ({"signature": None}, "not signed"),
        ({"hours": 25}, "expired"),
        ({"checksum": '  "" '}, "checksum is required"),
    ],
)
def test_an_address_links_only_as_it_was_handed_out(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    clock = Clock()
    with lakefs_server(tmp_path, clock=clock) as lake:
        main = lake.repository("shop").branch("main")
        address = lake.sdk.staging_api.get_physical_address("shop", "main", "new").physical_address
        clock.advance(hours=float(str(change.get("hours", 0))))
        if "signature" in change:
            address = address.partition(",")[0] + (f",{change['signature']}" if change["signature"] else "")
        staged = lakefs_sdk.StagingMetadata(
            staging=lakefs_sdk.StagingLocation(physical_address=address),
            checksum=str(change.get("checksum", "etag")),
            size_bytes=6,
        )
        with pytest.raises(lakefs_sdk.exceptions.BadRequestException, match=words):
            lake.sdk.staging_api.link_physical_address("shop", "main", str(change.get("path", "new")), staged)
        assert list(main.objects()) == []


def test_bulk_deletes_without_tombstones_remove_staged_entries(main: lakefs.Branch, lake: Lake) -> None:
    main.object("a").upload(b"x")
    path = "/repositories/shop/branches/main/objects/delete"
    assert lake.http("POST", path, query={"no_tombstone": "true"}, json_body={"paths": ["a"]}).status == 200
    assert list(main.uncommitted()) == []


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


def test_an_upload_cut_off_stages_nothing(main: lakefs.Branch, lake: Lake) -> None:
    """A client that goes away in the middle leaves neither an entry nor half an object."""
    host, _, port = lake.server.url.removeprefix("http://").partition(":")
    auth = lake.configuration().get_basic_auth_token()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            f"POST /api/v1/repositories/shop/branches/main/objects?path=cut HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {auth}\r\nContent-Length: 1000000\r\n\r\n".encode()
            + b"x" * 300_000
        )
    assert not main.object("cut").exists()
    assert main.object("after").upload(b"x").stat().size_bytes == 1
    assert sum(batch.num_rows for batch in lake.writer("shop").list("data/")) == 1


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
