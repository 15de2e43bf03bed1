"""Deleting on Azure: the truth about every blob, whatever the service answers."""

from collections.abc import Callable

import pytest

from dredge.errors import ConfigError
from dredge.storage import DeleteOutcome, StorageOptions
from dredge.storage.azure.deleting import AzureDeleter, read_answers
from dredge.storage.deleting import AdaptiveRate
from dredge.storage.location import parse_uri
from dredge.storage.model import NOT_SENT
from dredge.storage.options import AzureOptions
from tests.support.objectstore import ScriptedS3

KEY = "c2VjcmV0LWtleQ=="
ACCOUNT = "acct"


def part(number: int | None, status: int, code: str = "") -> str:
    id_line = "" if number is None else f"Content-ID: {number}\r\n"
    error = f"x-ms-error-code: {code}\r\n" if code else ""
    return f"--b\r\nContent-Type: application/http\r\n{id_line}\r\nHTTP/1.1 {status} X\r\n{error}\r\n"


def said(*parts: str) -> bytes:
    return ("".join(parts) + "--b--").encode()


def outcomes(found: list[DeleteOutcome]) -> list[tuple[str, str | None]]:
    return [(each.outcome, each.code) for each in found]


def test_answers_are_told_apart_by_id_and_not_by_order() -> None:
    body = said(part(2, 202), part(0, 404, "BlobNotFound"), part(1, 409, "SnapshotsPresent"))
    assert outcomes(read_answers(["a", "b", "c"], body)) == [
        ("missing", None),
        ("failed", "SnapshotsPresent"),
        ("deleted", None),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>a proxy's page</html>",
        said(part(0, 202)),
        said(part(0, 202), part(None, 202)),
        said(part(0, 202), part(0, 202)),
        said(part(0, 202), part(7, 202)),
    ],
)
def test_what_no_answer_speaks_about_is_never_deleted(body: bytes) -> None:
    assert outcomes(read_answers(["a", "b"], body))[1] == ("failed", "UnclearAnswer")


def test_a_container_that_is_gone_is_no_missing_blob() -> None:
    assert outcomes(read_answers(["a"], said(part(0, 404, "ContainerNotFound")))) == [
        ("failed", "ContainerNotFound")
    ]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return []


def deleter(server: ScriptedS3, waits: list[float]) -> AzureDeleter:
    endpoint = f"{server.options.endpoint_url}/{ACCOUNT}"
    options = StorageOptions(azure=AzureOptions(ACCOUNT, KEY, endpoint_url=endpoint))
    made = AzureDeleter(parse_uri(f"{endpoint}/c/lake", options), options, AdaptiveRate(sleep=waits.append))
    made._sleep = waits.append
    return made


class Service:
    """Answers for single blobs, as a test decides; takes no batch, so that each is asked about alone."""

    def __init__(self, single: Callable[[int], tuple[int, str]], batch: tuple[int, str] = (400, "")) -> None:
        self.single = single
        self.batch = batch
        self.asked: list[str] = []

    def __call__(self, method: str, path: str, _body: bytes) -> tuple[int, str]:
        if method == "POST":
            return self.batch
        self.asked.append(path.partition("?")[0])
        return self.single(len(self.asked))


def error(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>secret&#10;sig=abc</Message></Error>"


def test_a_batch_that_is_refused_whole_is_asked_blob_by_blob(waits: list[float]) -> None:
    service = Service(lambda n: (202, "") if n != 2 else (404, error("BlobNotFound")))
    with ScriptedS3(service) as server:
        found = deleter(server, waits).delete(["a", "b"])
    assert [each.outcome for each in found] == ["deleted", "missing"]
    assert service.asked == [f"/{ACCOUNT}/c/lake/a", f"/{ACCOUNT}/c/lake/b"]


def test_a_batch_that_the_service_cannot_do_is_asked_blob_by_blob(waits: list[float]) -> None:
    service = Service(lambda _n: (202, ""), (500, ""))
    with ScriptedS3(service) as server:
        found = deleter(server, waits).delete(["a", "b"])
    assert [each.outcome for each in found] == ["deleted", "deleted"]
    assert all("the first answer was 500" in str(each.message) for each in found)
    assert len(server.requests) == 3 + 2


def test_throttled_blobs_are_tried_again_and_only_while_it_is_allowed(waits: list[float]) -> None:
    service = Service(lambda n: (503, error("ServerBusy")) if n < 3 else (202, ""))
    with ScriptedS3(service) as server:
        made = deleter(server, waits)
        assert outcomes(made.delete(["a"])) == [("deleted", None)]
        assert made._rate.limit is not None
        assert len(service.asked) == 3
        service.asked.clear()
        allowed = iter([True, False])
        assert outcomes(made.delete(["a"], lambda: next(allowed))) == [("failed", "ServerBusy")]
        assert len(service.asked) == 1, "a retry inside the client would not have asked"
        assert outcomes(made.delete(["a"], lambda: False)) == [("failed", NOT_SENT)]
        assert len(service.asked) == 1


def test_a_missing_container_and_missing_rights_are_told(waits: list[float]) -> None:
    gone = Service(lambda _n: (404, error("ContainerNotFound")), (404, error("ContainerNotFound")))
    with ScriptedS3(gone) as server:
        for keys in (["a"], ["a", "b"]):
            with pytest.raises(ConfigError, match="ContainerNotFound"):
                deleter(server, waits).delete(keys)
    denied = Service(lambda _n: (403, error("AuthorizationFailure")), (403, error("AuthorizationFailure")))
    with ScriptedS3(denied) as server:
        found = deleter(server, waits).delete(["a", "b"])
    assert [each.outcome for each in found] == ["failed", "failed"]
    assert denied.asked == []
    assert not any("sig=abc" in str(each.message) or KEY in str(each.message) for each in found)


def test_names_reach_the_service_as_they_are(waits: list[float]) -> None:
    service = Service(lambda _n: (202, ""))
    with ScriptedS3(service) as server:
        made = deleter(server, waits)
        for key in ("a//b", "/a", "a/", "%2e%2e/a", "a b?c#d", "é"):
            made.delete([key])
        refused = made.delete(["a/../b", "a/./b", "..", "a/..", "a\\b", "a.", "", "\udcff"])
    assert service.asked == [
        f"/{ACCOUNT}/c/lake/{path}"
        for path in ("a//b", "/a", "a/", "%252e%252e/a", "a%20b%3Fc%23d", "%C3%A9")
    ]
    assert {each.outcome for each in refused} == {"not_addressable"}
    assert AzureDeleter.BATCH_KEYS == 256
