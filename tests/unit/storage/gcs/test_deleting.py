"""What deleting from Google Cloud Storage says when the service does not do what it was asked."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from dredge.errors import ConfigError
from dredge.runs.failures import not_deleted
from dredge.storage import (
    CHANGED,
    NOT_SENT,
    STORE_HOLD,
    ListedDeleter,
    ObjectInfo,
    open_deleter,
    open_reader,
    open_writer,
)
from dredge.storage.gcs.deleting import GcsDeleter
from dredge.storage.location import parse_uri
from tests.support.gcs import Answer, GcsServer, Query
from tests.support.gcs_state import Generation


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer() as server:
        yield server


def told(status: int, reason: str = "x", message: str = "") -> Answer:
    error = {"code": status, "message": message, "errors": [{"reason": reason}]}
    return status, {}, json.dumps({"error": error}).encode()


def deleter(server: GcsServer, uri: str) -> GcsDeleter:
    """One that does not wait."""
    made = GcsDeleter(parse_uri(uri, server.options), server.options)
    made._sleep = lambda _seconds: None
    return made


def planted(server: GcsServer, uri: str, *keys: str) -> list[str]:
    for key in keys:
        open_writer(uri, server.options).put(key, b"x")
    return list(keys)


def left(server: GcsServer, uri: str) -> list[str]:
    return sorted(server.buckets[uri.split("/")[2]].live)


def test_each_part_of_a_batch_is_told_apart(server: GcsServer) -> None:
    uri = server.bucket()
    keys = planted(server, uri, "a", "held", "c")
    held = told(403, "retentionPolicyNotMet", "Object is subject to a hold")
    server.fault = lambda method, path, _query: held if path.endswith("/o/held") else None
    outcomes = deleter(server, uri).delete([*keys, "gone"])
    assert [item.outcome for item in outcomes] == ["deleted", "failed", "deleted", "missing"]
    assert outcomes[1].code == "retentionPolicyNotMet"
    assert left(server, uri) == ["held"]


def test_a_part_without_an_answer_is_asked_again_and_is_not_taken_for_deleted(server: GcsServer) -> None:
    uri = server.bucket()
    keys = planted(server, uri, "a", "b")

    def silent(method: str, path: str, _query: Query) -> Answer | None:
        if method == "DELETE" and path.endswith("/o/b"):
            raise ConnectionError
        return None

    server.fault = silent
    outcomes = deleter(server, uri).delete(keys)
    assert [(item.outcome, item.code) for item in outcomes] == [
        ("deleted", None),
        ("failed", "UnclearAnswer"),
    ]
    assert left(server, uri) == ["b"]
    asked = [path.rpartition("/")[2] for _, path in server.parts]
    assert (asked.count("a"), asked.count("b")) == (1, 8)


def test_a_look_that_failed_leaves_no_deletion_in_doubt(server: GcsServer) -> None:
    uri = server.bucket(versioned=True)
    keys = planted(server, uri, "a", "b")

    def fails_and_somebody_deletes(method: str, path: str, _query: Query) -> Answer | None:
        if method != "GET" or not path.endswith("/o/a"):
            return None
        server.fault = lambda *_: None
        server.buckets[uri.split("/")[2]].delete("a", None, None)
        return told(500)

    server.fault = fails_and_somebody_deletes
    outcomes = deleter(server, uri).delete(keys)
    assert [(item.outcome, item.message) for item in outcomes] == [("missing", None), ("deleted", None)]


def test_what_is_written_between_look_and_deletion_stays_where_versions_are_kept(server: GcsServer) -> None:
    uri = server.bucket(versioned=True)
    keys = planted(server, uri, "a", "b")
    bucket = server.buckets[uri.split("/")[2]]
    first = bucket.live["a"].number

    def written_late(method: str, path: str, query: Query) -> Answer | None:
        if method == "DELETE" and path.endswith("/o/a") and bucket.live["a"].number == first:
            server.fault = lambda *_: None
            open_writer(uri, server.options).put("a", b"somebody else's")
        return None

    server.fault = written_late
    outcomes = deleter(server, uri).delete(keys)
    assert [(item.outcome, item.code) for item in outcomes] == [
        ("failed", "ChangedMeanwhile"),
        ("deleted", None),
    ]
    assert open_writer(uri, server.options).get("a") == b"somebody else's"
    assert outcomes[1].version_id is not None


def test_a_bucket_that_may_not_be_asked_about_is_taken_for_one_with_versions(server: GcsServer) -> None:
    uri = server.bucket(versioned=True)
    keys = planted(server, uri, "a")
    bucket = uri.split("/")[2]
    server.fault = lambda _method, path, _query: told(403) if path.endswith(f"/b/{bucket}") else None
    (outcome,) = deleter(server, uri).delete(keys)
    assert outcome.version_id is not None
    assert outcome.version_id.endswith("-deleted")


def test_a_missing_bucket_is_an_error_of_no_single_key(server: GcsServer) -> None:
    with pytest.raises(ConfigError, match="NoSuchBucket"):
        open_deleter("gs://nothing-here/lake", server.options).delete(["a"])


@pytest.mark.parametrize("id_", ["response-dredge+0", "response-dredge+7", ""])
def test_an_answer_about_other_keys_deletes_nobody(server: GcsServer, id_: str) -> None:
    uri = server.bucket()
    part = f"--b\r\nContent-ID: <{id_}>\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 X\r\n\r\n\r\n"
    body = (part * 2 + "--b--\r\n").encode()
    answer: Answer = (200, {"Content-Type": "multipart/mixed; boundary=b"}, body)
    server.fault = lambda _method, path, _query: answer if path.startswith("/batch") else None
    assert [item.outcome for item in deleter(server, uri).delete(["a", "b"])] == ["failed"] * 2


def listed(server: GcsServer, uri: str) -> list[ObjectInfo]:
    rows = [row for batch in open_reader(uri, server.options).list() for row in batch.to_pylist()]
    return [ObjectInfo(**row) for row in rows]


def test_listed_objects_take_a_look_and_a_deletion_for_each_hundred(server: GcsServer) -> None:
    uri = server.bucket()
    planted(server, uri, *(f"data/{number:04d}" for number in range(200)))
    objects = listed(server, uri)
    server.requests.clear()
    made = open_deleter(uri, server.options)
    assert isinstance(made, ListedDeleter)
    assert {item.outcome for item in made.delete_listed(objects[:100])} == {"deleted"}
    assert {item.outcome for item in made.delete_listed(objects[100:])} == {"deleted"}
    assert len(server.requests) == 5
    assert left(server, uri) == []
    assert made.delete_listed([]) == []


@pytest.mark.parametrize("versioned", [False, True])
def test_what_took_the_place_of_a_listed_object_stays(server: GcsServer, versioned: bool) -> None:
    uri = server.bucket(versioned=versioned)
    planted(server, uri, "again", "free", "longer", "other")
    objects = listed(server, uri)
    time.sleep(0.005)  # the store tells milliseconds
    writer = open_writer(uri, server.options)
    for key, data in (("again", b"x"), ("longer", b"longer"), ("other", b"y")):
        writer.put(key, data)
    found = deleter(server, uri).delete_listed(objects)
    assert [(item.key, item.outcome, item.code) for item in found] == [
        ("again", "kept", CHANGED),
        ("free", "deleted", None),
        ("longer", "kept", CHANGED),
        ("other", "kept", CHANGED),
    ]
    assert left(server, uri) == ["again", "longer", "other"]
    assert (found[1].version_id is not None) is versioned


def test_what_is_written_between_look_and_deletion_stays_in_any_bucket(server: GcsServer) -> None:
    uri = server.bucket()
    planted(server, uri, "a", "b")
    objects, bucket = listed(server, uri), server.buckets[uri.split("/")[2]]

    def written_late(method: str, path: str, _query: Query) -> Answer | None:
        if method == "DELETE" and path.endswith("/o/a"):
            server.fault = lambda *_: None
            bucket.write(Generation("a", b"x", {}))
        return None

    server.fault = written_late
    found = deleter(server, uri).delete_listed(objects)
    assert [(item.outcome, item.code) for item in found] == [("kept", CHANGED), ("deleted", None)]
    assert left(server, uri) == ["a"]


def test_a_deletion_that_is_sent_again_does_not_take_what_was_uploaded_since(server: GcsServer) -> None:
    uri = server.bucket()
    planted(server, uri, "a")
    objects, bucket = listed(server, uri), server.buckets[uri.split("/")[2]]

    def lost(method: str, path: str, _query: Query) -> Answer | None:
        if method == "DELETE":
            server.fault = lambda *_: None
            bucket.delete("a", None, None)
            bucket.write(Generation("a", b"somebody else's", {}))
            raise ConnectionError
        return None

    server.fault = lost
    (found,) = deleter(server, uri).delete_listed(objects)
    assert (found.outcome, found.code) == ("kept", CHANGED)
    assert bucket.live["a"].data == b"somebody else's"


@pytest.mark.parametrize("reason", ["objectUnderActiveHold", "retentionPolicyNotMet"])
def test_what_the_service_holds_is_kept_with_its_words(server: GcsServer, reason: str) -> None:
    uri = server.bucket()
    planted(server, uri, "a", "held")
    objects = listed(server, uri)
    held = told(403, reason, "Object is under active hold")
    server.fault = lambda method, path, _q: held if method == "DELETE" and path.endswith("held") else None
    free, kept = deleter(server, uri).delete_listed(objects)
    assert free.outcome == "deleted"
    assert (kept.outcome, kept.code, kept.message) == ("kept", STORE_HOLD, "Object is under active hold")


def test_an_object_that_nobody_described_is_deleted_by_its_name(server: GcsServer) -> None:
    uri = server.bucket()
    planted(server, uri, "a")
    made = deleter(server, uri)
    nobody = ObjectInfo("a", 0, datetime(2020, 1, 1, tzinfo=UTC), None)
    assert [item.outcome for item in made.delete_listed([nobody])] == ["deleted"]


def test_nothing_listed_is_deleted_when_the_look_took_its_permission(server: GcsServer) -> None:
    uri = server.bucket()
    planted(server, uri, "a")
    answers = [True, False]
    (found,) = deleter(server, uri).delete_listed(listed(server, uri), lambda: answers.pop(0))
    assert found.code == NOT_SENT
    assert left(server, uri) == ["a"]


def test_a_batch_that_the_service_was_too_busy_for_slows_down_and_leaves_no_doubt(server: GcsServer) -> None:
    uri = server.bucket()
    keys, busy = planted(server, uri, "a", "b"), [told(503, "backendError")]
    server.fault = lambda _method, path, _q: busy.pop() if busy and path.startswith("/batch") else None
    made, slowed = deleter(server, uri), list[bool]()
    made._rate.throttled = lambda: slowed.append(True)  # type: ignore[method-assign]
    assert [(item.outcome, item.message) for item in made.delete(keys)] == [("deleted", None)] * 2
    assert slowed == [True]


def test_credentials_that_may_not_delete_are_told_so(server: GcsServer) -> None:
    uri = server.bucket()
    keys = planted(server, uri, "a")
    denied = told(403, "forbidden", "does not have storage.objects.delete access")
    server.fault = lambda method, _path, _query: denied if method == "DELETE" else None
    (outcome,) = deleter(server, uri).delete(keys)
    assert (outcome.outcome, outcome.code) == ("failed", "forbidden")
    assert isinstance(not_deleted("Some stay.", {str(outcome.code)}, 0), ConfigError)
