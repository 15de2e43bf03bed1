"""Objects read over HTTP: stat, list, get, ranges, conditions."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import lakefs
import pytest
import urllib3
from lakefs.exceptions import NotFoundException, ObjectNotFoundException

from lakefs_embedded.server.handlers import object_reads
from tests.support.lakefs_server import Lake

TEN = b"0123456789"
OBJECTS = "/repositories/shop/refs/main/objects"


@pytest.fixture
def main(lake: Lake) -> lakefs.Branch:
    return lake.repository("shop").branch("main")


def test_stat_always_has_metadata(main: lakefs.Branch, lake: Lake) -> None:
    main.object("with").upload(b"x", metadata={"k": "v"})
    main.object("without").upload(b"x")
    stat = lake.sdk.objects_api.stat_object
    assert stat("shop", "main", "with").metadata == {"k": "v"}
    assert stat("shop", "main", "with", user_metadata=False).metadata == {}
    assert stat("shop", "main", "without").metadata == {}


def test_a_listing_leaves_missing_metadata_out(main: lakefs.Branch, lake: Lake) -> None:
    main.object("with").upload(b"x", metadata={"k": "v"})
    main.object("without").upload(b"x")
    shown = lake.http("GET", f"{OBJECTS}/ls").json()["results"]
    assert ["metadata" in each for each in shown] == [True, False]
    hidden = lake.http("GET", f"{OBJECTS}/ls", query={"user_metadata": "false"}).json()["results"]
    assert ["metadata" in each for each in hidden] == [False, False]


def test_what_is_not_there_is_404(main: lakefs.Branch, lake: Lake) -> None:
    with pytest.raises(ObjectNotFoundException):
        main.object("nothing").stat()
    with pytest.raises(ObjectNotFoundException):
        main.object("nothing").reader().read()
    assert main.object("nothing").exists() is False
    with pytest.raises(NotFoundException):
        list(lakefs.Repository("shop", lake.client).ref("nowhere").objects())


def test_a_listing_with_a_delimiter_folds_folders(main: lakefs.Branch, lake: Lake) -> None:
    for path in ("a/1", "a/2", "b", "c/d/e"):
        main.object(path).upload(b"x")
    top = list(main.objects(delimiter="/"))
    assert [(type(each).__name__, each.path) for each in top] == [
        ("CommonPrefix", "a/"),
        ("ObjectInfo", "b"),
        ("CommonPrefix", "c/"),
    ]
    assert [each.path for each in main.objects(prefix="a/", delimiter="/")] == ["a/1", "a/2"]
    folder = lake.http("GET", f"{OBJECTS}/ls", query={"delimiter": "/", "amount": 1}).json()
    assert folder["results"] == [
        {"checksum": "", "mtime": 0, "path": "a/", "path_type": "common_prefix", "physical_address": ""}
    ]
    assert folder["pagination"] == {"has_more": True, "max_per_page": 1000, "next_offset": "a/", "results": 1}


@pytest.mark.parametrize("amount", [1, 2, 3, 7, 1000])
def test_pages_of_any_size_give_every_path_once(main: lakefs.Branch, amount: int) -> None:
    paths = sorted(f"{random.Random(7).random()}/{number}" for number in range(20))
    for number, path in enumerate(paths):
        main.object(path).upload(b"x")
        if number == 10:
            main.commit("half")
    assert [each.path for each in main.objects(amount=amount)] == paths
    assert [each.path for each in main.objects(amount=amount, after=paths[4])] == paths[5:]


def test_headers_say_what_the_object_is(main: lakefs.Branch, lake: Lake) -> None:
    stats = main.object("a").upload(TEN, content_type="text/csv").stat()
    for method in ("GET", "HEAD"):
        answer = lake.http(method, OBJECTS, query={"path": "a"})
        assert answer.status == 200
        assert answer.headers["ETag"] == f'"{stats.checksum}"'
        assert answer.headers["Content-Type"] == "text/csv"
        assert answer.headers["Content-Length"] == "10"
        modified = parsedate_to_datetime(answer.headers["Last-Modified"])
        assert abs((modified - datetime.now(UTC)).total_seconds()) < 60
        assert answer.data == (TEN if method == "GET" else b"")


@pytest.mark.parametrize(
    ("header", "content", "place"),
    [
        ("bytes=0-3", TEN[:4], "bytes 0-3/10"),
        ("bytes=4-", TEN[4:], "bytes 4-9/10"),
        ("bytes=-3", TEN[-3:], "bytes 7-9/10"),
        ("bytes=-30", TEN, "bytes 0-9/10"),
        ("bytes=9-9", b"9", "bytes 9-9/10"),
        ("bytes=5-500", TEN[5:], "bytes 5-9/10"),
        ("bytes=0-", TEN, "bytes 0-9/10"),
    ],
)
def test_a_range_is_206(main: lakefs.Branch, lake: Lake, header: str, content: bytes, place: str) -> None:
    main.object("a").upload(TEN)
    for method in ("GET", "HEAD"):
        answer = lake.http(method, OBJECTS, query={"path": "a"}, headers={"Range": header})
        assert answer.status == 206
        assert answer.headers["Content-Range"] == place
        assert answer.headers["Content-Length"] == str(len(content))
        assert answer.data == (content if method == "GET" else b"")


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ("bytes=10-", "bytes */10"),
        ("bytes=10-12", "bytes */10"),
        ("bytes=-0", "bytes */10"),
        ("bytes=5-4", None),
        ("bytes=0-1,4-5", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
    ],
)
def test_a_range_that_cannot_be_is_416(
    main: lakefs.Branch, lake: Lake, header: str, size: str | None
) -> None:
    main.object("a").upload(TEN)
    answer = lake.http("GET", OBJECTS, query={"path": "a"}, headers={"Range": header})
    assert answer.status == 416
    assert answer.json() == {"message": "Requested Range Not Satisfiable"}
    assert answer.headers.get("Content-Range") == size
    assert lake.http("HEAD", OBJECTS, query={"path": "a"}, headers={"Range": header}).status == 416


def test_the_high_level_reader_seeks_and_reads_to_the_end(main: lakefs.Branch) -> None:
    main.object("a").upload(b"one\ntwo\nthree")
    with main.object("a").reader("rb") as reader:
        assert reader.read(2) == b"on"
        reader.seek(4)
        assert reader.read(3) == b"two"
        reader.seek(-5, 2)
        assert reader.read() == b"three"
        assert reader.read() == b""
    with main.object("a").reader("r") as reader:
        assert list(reader) == ["one\n", "two\n", "three"]


def test_an_etag_that_is_known_is_304(main: lakefs.Branch, lake: Lake) -> None:
    etag = main.object("a").upload(TEN).stat().checksum
    known = lake.http("GET", OBJECTS, query={"path": "a"}, headers={"If-None-Match": f'"{etag}"'})
    assert (known.status, known.data) == (304, b"")
    other = lake.http("GET", OBJECTS, query={"path": "a"}, headers={"If-None-Match": '"x"'})
    assert (other.status, other.data) == (200, TEN)


@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=2-3"}])
def test_an_object_whose_bytes_are_gone_is_410(
    main: lakefs.Branch, lake: Lake, headers: dict[str, str]
) -> None:
    """What a collector that deletes something live leaves behind: the entry is there, reading it is not."""
    address = main.object("a").upload(TEN).stat().physical_address
    Path(address.removeprefix("local://")).unlink()
    answer = lake.http("GET", OBJECTS, query={"path": "a"}, headers=headers)
    assert (answer.status, answer.json()) == (410, {"message": "No data"})
    assert main.object("a").exists()


def test_a_big_object_streams_in_pieces(
    main: lakefs.Branch, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_reads, "READ_BYTES", 1000)
    content = random.Random(1).randbytes(123_456)
    main.object("big").upload(content)
    assert main.object("big").reader().read() == content
    part = lake.http("GET", OBJECTS, query={"path": "big"}, headers={"Range": "bytes=777-98765"})
    assert part.data == content[777:98766]


@pytest.mark.parametrize("content_type", ["text/\u00e9", "a\tb", "x" * 300])
def test_any_content_type_can_be_read_back(main: lakefs.Branch, lake: Lake, content_type: str) -> None:
    lake.writer("shop").put("data/x", TEN)
    lake.stage("shop", "main", "a", "data/x", size_bytes=10, content_type=content_type)
    assert lake.sdk.objects_api.stat_object("shop", "main", "a").content_type == content_type
    assert lake.http("GET", OBJECTS, query={"path": "a"}).data == TEN


def test_a_client_that_leaves_in_the_middle_of_a_download_does_no_harm(
    main: lakefs.Branch, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    main.object("big").upload(bytes(32 << 20))
    with urllib3.PoolManager(retries=False) as pool:
        for _ in range(5):
            answer = pool.request(
                "GET",
                f"{lake.server.endpoint}{OBJECTS}?path=big",
                headers=urllib3.make_headers(
                    basic_auth=f"{lake.server.access_key_id}:{lake.server.secret_access_key}"
                ),
                preload_content=False,
            )
            assert len(answer.read(1000)) == 1000
            answer.close()
    assert len(main.object("big").reader().read()) == 32 << 20
    assert "Traceback" not in caplog.text
