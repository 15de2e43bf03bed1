"""Pages of a listing: complete by proof, in byte order, without directories."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from dredge.errors import FormatError
from dredge.storage import StorageOptions
from dredge.storage.azure import store
from dredge.storage.azure.store import Pages, list_blobs, list_one_level, parse_page

URL = "https://a.blob.core.windows.net/c"


HOT = "<AccessTier>Hot</AccessTier>"


def blob(
    name: str, size: int = 1, metadata: str = "", kind: str = "", encoded: bool = False, more: str = HOT
) -> str:
    mark = ' Encoded="true"' if encoded else ""
    return (
        f"<Blob><Name{mark}>{name}</Name><Properties><Creation-Time>Mon, 01 Jun 2026 10:00:00 GMT</Creation-Time>"
        f"<Last-Modified>Mon, 01 Jun 2026 10:00:01 GMT</Last-Modified><Etag>0x8D</Etag>{kind}"
        f"<Content-Length>{size}</Content-Length>{more}</Properties>"
        f"<Metadata>{metadata}</Metadata><OrMetadata /></Blob>"
    )


def page(*items: str, marker: str = "") -> bytes:
    end = f"<NextMarker>{marker}</NextMarker>" if marker else "<NextMarker />"
    inner = f"<Blobs>{''.join(items)}</Blobs>{end}"
    return f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults>{inner}</EnumerationResults>'.encode()


class Acted:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, pages: list[bytes], flat: bool = True) -> None:
        self.queries: list[dict[str, str]] = []
        self.left = pages
        acted = self

        def fetch(self: Pages, marker: str) -> bytes:
            acted.queries.append(self._query | {"marker": marker})
            return acted.left.pop(0)

        monkeypatch.setattr(Pages, "fetch", fetch)
        monkeypatch.setattr(store, "is_flat", lambda *_: flat)

    def keys(self, prefix: str = "", after: str = "", before: str = "") -> list[str]:
        return [
            key
            for batch in list_blobs(StorageOptions(), URL, "lake/", prefix, after, before)
            for key in batch["key"].to_pylist()
        ]


def test_names_are_read_to_the_letter() -> None:
    written = ["lake/a&amp;b&lt;&gt;", "lake/&quot;quoted&quot;", "lake/pct%20x", "lake/é"]
    found = parse_page(page(*map(blob, written), blob("lake/odd%EF%BF%BE%2Fx", encoded=True)), "it")
    assert found.rows["key"].to_pylist() == [
        "lake/a&b<>",
        'lake/"quoted"',
        "lake/pct%20x",
        "lake/é",
        "lake/odd\ufffe/x",
    ]
    assert {row["etag"] for row in found.rows.to_pylist()} == {"0x8D"}


def test_placeholders_of_directories_are_no_objects() -> None:
    mark = "<Hdi_isfolder>true</Hdi_isfolder>"
    found = parse_page(
        page(
            blob("d", 0, mark),
            blob("e", 0, kind="<ResourceType>directory</ResourceType>"),
            blob("full", 3, mark),
            blob("f", 0),
            blob("g", 2, kind="<ResourceType>file</ResourceType>"),
        ),
        "it",
    )
    assert found.rows["key"].to_pylist() == ["full", "f", "g"]


def test_metadata_that_looks_like_properties_changes_nothing() -> None:
    forged = "<Name>lake/forged</Name><Etag>forged</Etag>"
    rows = parse_page(page(blob("lake/a", 1, forged), blob("lake/b")), "it").rows
    assert rows["key"].to_pylist() == ["lake/a", "lake/b"]
    assert rows["etag"].to_pylist() == ["0x8D", "0x8D"]


def tier(name: str) -> str:
    return f"<AccessTier>{name}</AccessTier>"


def test_tiers_are_those_of_the_properties_whatever_metadata_say() -> None:
    archive = tier("Archive")
    cases: list[tuple[list[str], list[str | None]]] = [
        ([blob("a"), blob("b")], [None, None]),
        ([blob("a", more=""), blob("b", more="")], [None, None]),
        ([blob("a", more=archive), blob("b")], ["AZURE_ARCHIVE", None]),
        ([blob("a", more=archive), blob("b", 1, HOT)], ["AZURE_ARCHIVE", None]),
        ([blob("a", more=archive), blob("b", 1, HOT, more="")], ["AZURE_ARCHIVE", None]),
        ([blob("a", 1, HOT, more=""), blob("b", more=archive)], [None, "AZURE_ARCHIVE"]),
        ([blob("a", 1, archive), blob("b", more=tier("Cool"))], [None, "AZURE_COOL"]),
    ]
    for blobs, tiers in cases:
        assert parse_page(page(*blobs), "it").rows["storage_class"].to_pylist() == tiers, blobs


@pytest.mark.parametrize(
    "broken",
    [
        page(blob("a")).replace(b"<NextMarker />", b""),
        page(blob("a").replace("<Etag>0x8D</Etag>", "")),
        page(blob("a").replace("<Content-Length>1</Content-Length>", "")),
        page(blob("a").replace("Mon, 01 Jun 2026 10:00:01 GMT", "yesterday")),
        page(blob("a"))[:-60] + b"<NextMarker /></EnumerationResults>",
    ],
)
def test_a_page_that_does_not_add_up_is_an_error_and_never_shorter(broken: bytes) -> None:
    with pytest.raises(FormatError):
        parse_page(broken, "it")


def test_markers_are_followed_to_the_end_even_over_empty_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    acted = Acted(monkeypatch, [page(blob("lake/a"), marker="m1"), page(marker="m2"), page(blob("lake/b"))])
    assert acted.keys() == ["a", "b"]
    assert [query["marker"] for query in acted.queries] == ["", "m1", "m2"]


def test_a_marker_that_comes_again_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    acted = Acted(monkeypatch, [page(blob("lake/a"), marker="m"), page(blob("lake/b"), marker="m")])
    with pytest.raises(FormatError, match="repeats a marker"):
        acted.keys()


@pytest.mark.parametrize("names", [("lake/b", "lake/a"), ("lake/a", "lake/a"), ("other/a",)])
def test_names_out_of_order_or_place_cannot_be_trusted(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    with pytest.raises(FormatError):
        Acted(monkeypatch, [page(*map(blob, names))]).keys()


def hierarchical() -> list[bytes]:
    names = ["lake/a/b", "lake/a/c", "lake/a-b", "lake/a.c", "lake/b"]
    return [page(blob(one), marker=two) for one, two in pairwise([*names, ""])]


def test_nothing_is_cut_off_where_the_order_is_not_that_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    acted = Acted(monkeypatch, hierarchical(), flat=False)
    assert acted.keys("", "a", "a/b") == ["a-b", "a.c"]
    assert acted.left == []
    assert {query["startFrom"] for query in acted.queries} == {""}


def test_a_range_of_a_flat_account_begins_and_ends_near_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [page(blob(f"lake/data/s/{n:03d}"), marker=f"m{n}") for n in range(20, 99)]
    acted = Acted(monkeypatch, pages)
    assert acted.keys("data/s/", "data/s/020", "data/s/023") == ["data/s/021", "data/s/022"]
    assert len(acted.queries) == 4
    assert acted.queries[0]["startFrom"] == "lake/data/s/020"
    assert acted.queries[0]["prefix"] == "lake/data/s/02"


def test_a_level_is_read_over_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def pages() -> Iterator[bytes]:
        yield page(blob("lake/d/x"), "<BlobPrefix><Name>lake/d/b/</Name></BlobPrefix>", marker="m")
        yield page(
            "<BlobPrefix><Name>lake/d/a/</Name></BlobPrefix>",
            "<BlobPrefix><Name>lake/d/b/</Name></BlobPrefix>",
        )

    Acted(monkeypatch, list(pages()))
    level = list_one_level(StorageOptions(), URL, "lake/", "d/")
    assert level.folders == ["d/a/", "d/b/"]
    assert [info.key for info in level.objects] == ["d/x"]
