"""Objects read over HTTP: stat, list, get, ranges, conditions."""

import lakefs
import pytest

from tests.support.lakefs_server import Lake

TEN = b"0123456789"
OBJECTS = "/repositories/shop/refs/main/objects"


@pytest.fixture
def main(lake: Lake) -> lakefs.Branch:
    return lake.repository("shop").branch("main")


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
