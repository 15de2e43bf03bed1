"""Reading, listing and writing on Google Cloud Storage when the service, or somebody else, does the unexpected."""

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError, UnavailableError
from dredge.storage import (
    open_copier,
    open_deleter,
    open_marker_remover,
    open_reader,
    open_versions,
    open_writer,
)
from tests.support.gcs import Answer, GcsServer, Query
from tests.support.gcs_state import Bucket, Generation


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer() as server:
        yield server


def bucket_of(server: GcsServer, uri: str) -> Bucket:
    return server.buckets[uri.split("/")[2]]


def listed(server: GcsServer, uri: str, **bounds: str) -> list[str]:
    return [
        key for batch in open_reader(uri, server.options).list(**bounds) for key in batch["key"].to_pylist()
    ]


def page(*names: str, **more: Any) -> Answer:
    items = [Generation(name, b"", {}).resource("b") for name in names]
    return 200, {}, json.dumps({"kind": "storage#objects", "items": items, **more}).encode()


def test_pages_are_followed_to_the_end_even_when_they_are_empty(server: GcsServer) -> None:
    uri = server.bucket()
    pages = {"": page("a", nextPageToken="1"), "1": page(nextPageToken="2"), "2": page("b", "c")}
    server.fault = lambda _method, _path, query: pages[query.get("pageToken", "")]
    assert listed(server, uri) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "answer",
    [
        page("b", "a"),
        page("a", "a"),
        page("other/a"),
        page("a", nextPageToken="same"),
        (200, {}, b'{"kind": "storage#objects", "items": [{"name": "a"'),
        (200, {}, b"{}"),
        (200, {}, b'{"kind": "storage#buckets", "items": []}'),
        (200, {}, b"<html>a proxy</html>"),
    ],
)
def test_a_listing_that_is_not_whole_and_in_order_is_no_listing(server: GcsServer, answer: Answer) -> None:
    uri = server.bucket()
    server.fault = lambda _method, _path, _query: answer
    with pytest.raises(FormatError):
        list(open_reader(uri, server.options).list(prefix="" if b"other" not in answer[2] else "a"))


def test_a_listing_that_fails_in_between_is_an_error_and_no_shorter_listing(server: GcsServer) -> None:
    uri = server.bucket()
    answers = {"": page("a", nextPageToken="1")}
    server.fault = lambda _method, _path, query: answers.get(query.get("pageToken", ""), (503, {}, b""))
    with pytest.raises(UnavailableError):
        listed(server, uri)
    server.fault = lambda *_: None
    with pytest.raises(ConfigError, match="bucket"):
        list(open_reader("gs://nothing-here", server.options).list())


def test_a_state_that_was_replaced_after_the_look_is_not_written_over(server: GcsServer) -> None:
    uri = server.bucket()
    writer = open_writer(uri, server.options)
    etag = writer.put("state", b"1")
    assert etag is not None

    def replaced(method: str, _path: str, query: Query) -> Answer | None:
        if method == "POST":
            server.fault = lambda *_: None
            writer.put("state", b"2")
            writer.put("state", b"1")  # the same content, and another generation
        return None

    server.fault = replaced
    with pytest.raises(ConflictError):
        writer.put_if_match("state", b"3", etag)
    assert writer.get("state") == b"1"


def test_a_write_that_is_damaged_on_its_way_is_refused(
    server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dredge.storage.gcs import listing

    uri = server.bucket()
    monkeypatch.setattr(listing, "encoded_checksum", lambda _digest: "AAAAAAAAAAAAAAAAAAAAAA==")
    with pytest.raises(ConfigError, match="MD5"):
        open_writer(uri, server.options).put("a", b"x")
    assert bucket_of(server, uri).live == {}


def test_a_stream_is_sent_whole_again_after_a_lost_request(server: GcsServer) -> None:
    uri, content, lost = server.bucket(), os.urandom(1 << 20) * 9, list[str]()

    def loses_one(method: str, path: str, _query: Query) -> Answer | None:
        if "/upload/" in path and not lost:
            lost.append(method)
            raise ConnectionError
        return None

    server.fault = loses_one
    assert open_writer(uri, server.options).put_stream("big", iter([content])).size == len(content)
    assert (lost, open_reader(uri, server.options).get("big")) == (["POST"], content)


def test_a_stream_that_must_find_its_key_free_replaces_nothing_that_came_meanwhile(server: GcsServer) -> None:
    uri = server.bucket()
    writer = open_writer(uri, server.options)

    def chunks() -> Iterator[bytes]:
        yield b"x" * (17 << 20)
        writer.put("a", b"somebody else's")

    with pytest.raises(ConflictError):
        writer.put_stream("a", chunks(), if_absent=True)
    assert writer.get("a") == b"somebody else's"


def test_a_large_copy_goes_in_steps_and_keeps_what_is_known_of_the_object(server: GcsServer) -> None:
    uri = server.bucket()
    server.rewrite_bytes = 4
    about = {
        "contentType": "application/x-parquet",
        "metadata": {"who": "me"},
        "storageClass": "NEARLINE",
        "kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/3",
    }
    bucket_of(server, uri).write(Generation("lake/a", b"0123456789", dict(about)))
    copied = open_copier(f"{uri}/lake", f"{uri}/q", server.options).copy("a")
    made = bucket_of(server, uri).live["q/a"]
    assert (copied.size, made.data) == (10, b"0123456789")
    assert {name: made.about[name] for name in list(about)[:3]} == {
        name: about[name] for name in list(about)[:3]
    }
    assert made.about["kmsKeyName"].startswith("projects/p/locations/l/keyRings/r/cryptoKeys/k/")
    assert sum("rewriteTo" in path for _, path in server.requests) == 3


def test_the_copy_is_of_what_was_looked_at(server: GcsServer) -> None:
    uri = server.bucket()
    writer = open_writer(f"{uri}/lake", server.options)
    writer.put("a", b"listed")

    def replaced(_method: str, path: str, _query: Query) -> Answer | None:
        if "rewriteTo" in path:
            server.fault = lambda *_: None
            writer.put("a", b"another")
        return None

    server.fault = replaced
    with pytest.raises(NotFoundError):
        open_copier(f"{uri}/lake", f"{uri}/q", server.options).copy("a", size=6)
    assert listed(server, f"{uri}/q") == []


def test_a_copy_that_is_not_like_its_source_is_an_error(server: GcsServer) -> None:
    uri = server.bucket()
    open_writer(f"{uri}/lake", server.options).put("a", b"content")
    other = Generation("q/a", b"contents", {}).resource("b")
    told = json.dumps({"done": True, "resource": other}).encode()
    server.fault = lambda _method, path, _query: (200, {}, told) if "rewriteTo" in path else None
    with pytest.raises(FormatError, match="size"):
        open_copier(f"{uri}/lake", f"{uri}/q", server.options).copy("a")


def test_a_deletion_is_not_taken_back_over_what_came_between_look_and_copy(server: GcsServer) -> None:
    uri = server.bucket(versioned=True)
    writer = open_writer(uri, server.options)
    writer.put("a", b"deleted")
    open_deleter(uri, server.options).delete(["a"])
    marker = open_versions(uri, server.options).versions("a")[0]

    def written(_method: str, path: str, _query: Query) -> Answer | None:
        if "rewriteTo" in path:
            server.fault = lambda *_: None
            writer.put("a", b"somebody else's")
        return None

    server.fault = written
    assert open_marker_remover(uri, server.options).remove("a", marker).outcome == "missing"
    assert writer.get("a") == b"somebody else's"


def test_tags_are_hashes_of_the_content_where_the_service_knows_one(server: GcsServer) -> None:
    uri = server.bucket()
    bucket_of(server, uri).write(Generation("composed", b"x", {}, composed=True))
    sealed = Generation("sealed", b"x", {}, composed=True)
    bucket_of(server, uri).write(sealed)
    bucket_of(server, uri).write(Generation("whole", b"x", {}))
    plain = {item["name"]: item for item in json.loads(page("composed", "sealed", "whole")[2])["items"]}
    for name in ("composed", "sealed"):
        plain[name].pop("md5Hash")
    plain["sealed"].pop("crc32c")
    plain["sealed"]["generation"] = "7"
    body = json.dumps({"kind": "storage#objects", "items": list(plain.values())}).encode()
    server.fault = lambda *_: (200, {}, body)
    (batch,) = open_reader(uri, server.options).list()
    assert [tag.split("-")[0] for tag in batch["etag"].to_pylist()[:2]] == ["crc32c", "generation"]
    assert len(batch["etag"][2].as_py()) == 32


def test_a_forked_child_has_sessions_of_its_own(server: GcsServer) -> None:
    uri = server.bucket()
    writer = open_writer(uri, server.options)
    writer.put("a", b"parent")
    pid = os.fork()
    if pid == 0:
        try:
            writer.put("b", writer.get("a") + b"'s child")
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert writer.get("b") == b"parent's child"


def test_a_server_that_drops_connections_is_unavailable(server: GcsServer) -> None:
    uri = server.bucket()

    def drops(*_: object) -> Answer | None:
        raise ConnectionError

    server.fault = drops
    with pytest.raises(UnavailableError):
        open_reader(uri, server.options).get("a")
    assert len(server.requests) > 1


def test_what_the_service_compresses_on_its_way_is_read_and_objects_stay_as_they_are(
    server: GcsServer,
) -> None:
    server.packs = True
    uri = server.bucket(versioned=True)
    writer, packed = open_writer(uri, server.options), gzip.compress(b"an object that is itself compressed")
    etag = writer.put("a", packed)
    assert etag is not None
    writer.put_if_match("a", packed, etag)
    bucket_of(server, uri).live["a"].about["contentEncoding"] = "gzip"
    assert (listed(server, uri), writer.stat("a").size) == (["a"], len(packed))
    assert writer.get("a") == b"".join(writer.open_read("a")) == packed
    assert writer.get_range("a", 1, 4) == packed[1:5]
    assert writer.copy("a", "b").size == len(packed)
    assert [found.is_latest for found in open_versions(uri, server.options).versions("a")] == [True, False]
    with pytest.raises(NotFoundError):
        writer.get("nothing")
    with pytest.raises(ConfigError, match="bucket does not exist"):
        open_reader("gs://nothing-here", server.options).get("a")
    outcomes = open_deleter(uri, server.options).delete(["a", "b", "c"])
    assert [item.outcome for item in outcomes] == ["deleted", "deleted", "missing"]


def test_pages_that_lead_in_a_circle_end(server: GcsServer) -> None:
    uri = server.bucket()
    tokens = {"": "1", "1": "2", "2": "1"}
    server.fault = lambda _method, _path, query: page(nextPageToken=tokens[query.get("pageToken", "")])
    with pytest.raises(FormatError, match="token"):
        listed(server, uri)
    with pytest.raises(FormatError, match="token"):
        open_reader(uri, server.options).list_level()


def test_who_pays_is_said_in_every_request_that_begins_something(server: GcsServer) -> None:
    uri = server.bucket()
    options = replace(server.options, gcs=replace(server.options.gcs, user_project="ours"))
    writer = open_writer(uri, options)
    writer.put("a", b"x")
    writer.put_stream("b", [b"x" * (9 << 20)])
    writer.get("a")
    writer.stat("a")
    assert list(writer.open_read("a")) == [b"x"]
    list(writer.list())
    writer.copy("a", "c")
    open_deleter(uri, options).delete(["a"])
    asked = [path for _, path in [*server.requests, *server.parts] if "/storage/v1/b" in path]
    assert len(asked) > 8
    assert [path for path in asked if "userProject=ours" not in path] == []
