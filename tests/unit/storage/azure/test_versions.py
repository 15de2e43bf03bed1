"""Versions on Azure: what is told of them, and that exactly those go or come back that were named."""

from collections.abc import Iterator

import pytest

from dredge.errors import ConfigError
from dredge.storage import (
    open_deleter,
    open_marker_remover,
    open_old_version_deleter,
    open_versions,
    open_writer,
)
from dredge.storage.azure import deleting as copying
from dredge.storage.azure.deleting import AzureVersionDeleter, AzureVersions
from dredge.storage.location import parse_uri
from dredge.storage.model import always
from tests.support.azure import copy_in_blocks
from tests.support.azure_server import Answer, AzureServer


@pytest.fixture(scope="module")
def shared() -> Iterator[AzureServer]:
    with AzureServer() as server:
        yield server


@pytest.fixture
def server(shared: AzureServer) -> AzureServer:
    shared.fault = lambda *_: None
    shared.page_rows = 5000
    return shared


def reader(server: AzureServer, uri: str) -> AzureVersions:
    return AzureVersions(parse_uri(uri, server.options), server.options)


def told(status: int, code: str) -> Answer:
    return status, {"x-ms-error-code": code}, f"<Error><Code>{code}</Code></Error>".encode()


def test_whether_versions_are_kept_is_told_by_a_write_in_the_same_account_only(server: AzureServer) -> None:
    for kept, found in ((True, "enabled"), (False, "off")):
        uri = f"{server.container(versioned=kept)}/lake"
        assert reader(server, uri).versioning(f"{uri}/run") == found
        assert reader(server, uri).versioning() == "unknown"
        assert reader(server, uri).versioning("https://other.blob.core.windows.net/c/run") == "unknown"
        assert list(server.held(uri).blobs) == ["lake/run/.dredge-versioning"]
    server.fault = lambda *_: told(403, "AuthorizationFailure")
    assert reader(server, uri).versioning(f"{uri}/run") == "unknown"
    server.fault = lambda *_: None
    with pytest.raises(ConfigError, match="no such container"):
        reader(server, uri).versioning(f"{server.url}/nothing-here/run")


def test_versions_of_a_name_are_told_whole_and_of_no_other(server: AzureServer) -> None:
    server.page_rows = 2
    uri = f"{server.container(versioned=True)}/lake"
    writer = open_writer(uri, server.options)
    for size in (1, 2, 3, 4, 5):
        writer.put("a", b"x" * size)
        writer.put("a/b", b"another")
        writer.put("a0", b"another")
    found = reader(server, uri).versions("a")
    assert [(item.size, item.is_latest) for item in found] == [
        (5, True),
        (4, False),
        (3, False),
        (2, False),
        (1, False),
    ]
    open_deleter(uri, server.options).delete(["a"])
    marker, *found = reader(server, uri).versions("a")
    assert (marker.is_marker, marker.is_latest) == (True, True)
    assert [(item.size, item.is_latest) for item in found] == [(size, False) for size in (5, 4, 3, 2, 1)]
    assert reader(server, uri).versions("never") == reader(server, uri).versions("a/../b") == []


def test_exactly_the_versions_that_are_named_go_and_a_current_one_never(server: AzureServer) -> None:
    uri = f"{server.container(versioned=True)}/lake"
    writer = open_writer(uri, server.options)
    for key in ("a", "b"):
        for content in (b"old", b"current"):
            writer.put(key, content)
    (a, a_old), (b, b_old) = (reader(server, uri).versions(key) for key in "ab")
    deleter = AzureVersionDeleter(parse_uri(uri, server.options), server.options)
    outcomes = deleter.delete(
        [("a", a_old.version_id), ("b", b.version_id), ("a", "2020-01-01T00:00:00.0000000Z")]
    )
    assert [(item.outcome, item.code) for item in outcomes] == [
        ("deleted", None),
        ("failed", "OperationNotAllowedOnRootBlob"),
        ("missing", None),
    ]
    assert [item.version_id for item in reader(server, uri).versions("a")] == [a.version_id]
    assert reader(server, uri).versions("b") == [b, b_old]


@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_was_written_since_a_deletion_is_not_written_over(
    server: AzureServer, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_blocks:
        copy_in_blocks(monkeypatch, 3, 3)
    uri = f"{server.container(versioned=True)}/lake"
    writer, remover = open_writer(uri, server.options), open_marker_remover(uri, server.options)
    writer.put("a", b"content")
    open_deleter(uri, server.options).delete(["a"])
    marker, _ = open_versions(uri, server.options).versions("a")
    assert remover.remove("a", marker).outcome == "deleted"
    assert writer.get("a") == b"content"
    open_deleter(uri, server.options).delete(["a"])
    marker, *_ = open_versions(uri, server.options).versions("a")
    look = copying.check_source

    def late(*found: object) -> None:
        look(*found)  # type: ignore[arg-type]
        writer.put("a", b"somebody else's")

    monkeypatch.setattr(copying, "check_source", late)
    assert remover.remove("a", marker).outcome == "missing"
    assert writer.get("a") == b"somebody else's"


def test_an_archived_version_stays_where_it_is_and_is_told(server: AzureServer) -> None:
    uri = f"{server.container(versioned=True)}/lake"
    open_writer(uri, server.options).put("a", b"content")
    open_deleter(uri, server.options).delete(["a"])
    server.held(uri).blobs["lake/a"][0].tier = "Archive"
    marker, version = reader(server, uri).versions("a")
    outcome = open_marker_remover(uri, server.options).remove("a", marker)
    assert outcome.outcome == "failed"
    assert "BlobArchived" in str(outcome.message)
    assert reader(server, uri).versions("a") == [marker, version]


def test_what_soft_delete_keeps_is_no_version_any_more(server: AzureServer) -> None:
    uri = f"{server.container(versioned=True, soft_delete_days=9)}/lake"
    open_writer(uri, server.options).put("a", b"content")
    open_deleter(uri, server.options).delete(["a"])
    _, version = reader(server, uri).versions("a")
    open_old_version_deleter(uri, server.options).delete([("a", version)], always)
    assert reader(server, uri).versions("a") == []
    assert reader(server, uri).kept_seconds() == 9 * 86_400
    assert [blob.data for blob in server.held(uri).deleted] == [b"content"]
