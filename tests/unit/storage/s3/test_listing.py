"""Listing pages: read exactly, added up, and never silently short."""

from urllib.parse import parse_qs, quote_plus, urlsplit
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.errors import ConfigError, FormatError, UnavailableError
from dredge.storage import open_reader
from dredge.storage.s3.store import parse_page
from tests.support.objectstore import Answer, ScriptedS3

WHEN = "2026-11-20T10:11:12.345Z"


def contents(key: str, size: int = 1, etag: str | None = "&quot;abc&quot;", extra: str = "") -> str:
    tag = "" if etag is None else f"<ETag>{etag}</ETag>"
    when = f"<LastModified>{WHEN}</LastModified>"
    return f"<Contents><Key>{key}</Key>{when}{tag}{extra}<Size>{size}</Size></Contents>"


def page(*rows: str, count: int | None = None, token: str | None = None, coded: bool = True) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        + (f"<KeyCount>{len(rows) if count is None else count}</KeyCount>")
        + ("<EncodingType>url</EncodingType>" if coded else "")
        + f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>"
        + (f"<NextContinuationToken>{token}</NextContinuationToken>" if token else "")
        + "".join(rows)
        + "</ListBucketResult>"
    )


def keys_of(xml: str) -> list[str]:
    found: list[str] = parse_page(xml.encode(), "listing").rows.column(0).to_pylist()
    return found


def classes_of(*rows: str) -> list[str | None]:
    found: list[str | None] = parse_page(page(*rows).encode(), "it").rows["storage_class"].to_pylist()
    return found


def test_classes_are_told_but_for_the_plain_one_and_not_at_all_by_a_page_that_lacks_some() -> None:
    def of(name: str) -> str:
        return f"</Size><StorageClass>{name}</StorageClass>"

    plain, cold, bare = (
        contents("k").replace("</Size>", end) for end in (of("STANDARD"), of("GLACIER"), "</Size>")
    )
    assert classes_of(plain, plain) == classes_of(bare, bare) == classes_of(cold, bare) == [None, None]
    assert classes_of(plain, cold) == [None, "GLACIER"]
    odd = cold.replace("<Size>1</Size>", "").replace("<Key>", "<Size>1</Size><Key>")
    assert classes_of(plain, odd) == [None, "GLACIER"]


key_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(key_text, max_size=8))
def test_any_key_comes_out_of_its_url_coding(keys: list[str]) -> None:
    assert keys_of(page(*(contents(quote_plus(key, safe="/")) for key in keys))) == keys


@settings(deadline=None)
@given(st.lists(st.text("%25aAf+ \n/", min_size=1, max_size=8), max_size=6))
def test_percent_signs_and_plus_signs_are_not_decoded_twice(keys: list[str]) -> None:
    assert keys_of(page(*(contents(quote_plus(key, safe="")) for key in keys))) == keys
    lower = [contents(quote_plus(key, safe="").lower()) for key in keys]
    assert keys_of(page(*lower)) == [key.lower() for key in keys]


@settings(deadline=None)
@given(
    st.lists(
        st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=8), max_size=6
    )
)
def test_a_server_that_ignores_url_coding_is_read_by_xmls_rules(keys: list[str]) -> None:
    rows = [contents(escape(key, {'"': "&quot;"})) for key in keys]
    assert keys_of(page(*rows, coded=False)) == keys


def test_an_object_without_etag_stays_in_the_listing() -> None:
    rows = parse_page(
        page(contents("a"), contents("b%2Cc", etag=None), contents("d")).encode(), "listing"
    ).rows
    assert rows.column(0).to_pylist() == ["a", "b,c", "d"]
    assert rows.column(3).to_pylist() == ["abc", None, "abc"]


@pytest.mark.parametrize(
    "xml",
    [
        page(contents("a"), count=2),
        page(contents("a"), count=0),
        page(contents("a", size=1).replace(WHEN, "yesterday")),
        page(contents("a").replace("<Size>1</Size>", "")),
        page(contents("a").replace(f"<LastModified>{WHEN}</LastModified>", "")),
        page(contents("a").replace("<Key>a</Key>", "")),
        page(contents("%FF%FE")),
        page(contents("a"), token="t").replace("<NextContinuationToken>t</NextContinuationToken>", ""),
        page(contents("a"), token="t").replace("<IsTruncated>", "<IsTruncated >"),
        page(contents("a"), token="t").replace(">true<", ">yes<"),
        page(contents("a"), "<CommonPrefixes><Prefix>%FF/</Prefix></CommonPrefixes>"),
    ],
)
def test_a_page_that_does_not_add_up_is_an_error_and_never_a_shorter_page(xml: str) -> None:
    with pytest.raises(FormatError, match="listing"):
        parse_page(xml.encode(), "listing")


def test_an_object_in_a_tag_with_a_space_or_an_attribute_is_not_left_out() -> None:
    odd = [
        contents(key).replace("<Contents>", tag)
        for key, tag in (("b", "<Contents >"), ("c", "<Contents a='1'>"))
    ]
    xml = page(contents("a"), *odd, contents("d")).replace("<KeyCount>4</KeyCount>", "")
    assert keys_of(xml) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("name", ["KeyCount", "EncodingType", "IsTruncated", "NextContinuationToken"])
@pytest.mark.parametrize("place", ["</Contents><Contents>", "</ListBucketResult>"])
def test_what_a_page_says_of_itself_counts_before_between_and_after_its_objects(
    name: str, place: str
) -> None:
    rows = [contents("a%20b"), contents("c")]
    xml = page(*rows, token="t")
    said = f"<{name}>{xml.partition(f'<{name}>')[2].partition('</')[0]}</{name}>"
    moved = xml.replace(said, "").replace(
        place, place.replace("><", f">{said}<") if "><" in place else said + place
    )
    assert moved.count(said) == 1
    found = parse_page(moved.encode(), "listing")
    assert found.rows.column(0).to_pylist() == ["a b", "c"]
    assert found.next_token == "t"
    if name == "KeyCount":
        with pytest.raises(FormatError):
            parse_page(moved.replace(said, "<KeyCount>3</KeyCount>").encode(), "listing")


def test_a_page_that_says_between_its_objects_that_more_follow_is_not_the_last() -> None:
    said = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    xml = page(contents("a"), contents("b")).replace("</Contents><", f"</Contents>{said}<", 1)
    assert "<IsTruncated>false</IsTruncated>" in xml
    assert parse_page(xml.encode(), "listing").next_token == "t"


class Lister:
    """A bucket's ListObjectsV2, a few keys a page."""

    def __init__(self, keys: list[str], per_page: int) -> None:
        self.keys = sorted(keys, key=str.encode)
        self.per_page = per_page

    def __call__(self, method: str, path: str, body: bytes) -> Answer:
        query = {k: v[0] for k, v in parse_qs(urlsplit(path).query, keep_blank_values=True).items()}
        low = query.get("continuation-token", "")[1:] or query.get("start-after", "")
        found = [k for k in self.keys if k.startswith(query["prefix"]) and (not low or k > low)]
        shown = found[: self.per_page]
        more = len(found) > self.per_page
        return 200, page(
            *(contents(quote_plus(k, safe="/")) for k in shown),
            token="T" + escape(shown[-1]) if more else None,
        )


def test_listing_crosses_pages_and_bounds_without_loss_or_repetition() -> None:
    keys = [f"lake/d/{n:03d},x&y" for n in range(30)]
    relative = [key.removeprefix("lake/") for key in keys]
    for per_page in (1, 7, 29, 30, 1000):
        with ScriptedS3(Lister([*keys, "lake/e", "lake2/d/1"], per_page)) as server:
            reader = open_reader("s3://bkt/lake", server.options)

            def listed(reader: object = reader, **bounds: str) -> list[str]:
                batches = reader.list("d/", **bounds)  # type: ignore[attr-defined]
                return [key for batch in batches for key in batch.column(0).to_pylist()]

            assert listed() == relative
            assert listed(start_after=relative[11]) == relative[12:]
            assert listed(start_after=relative[11], stop_before=relative[13]) == relative[12:13]
            before = len(server.requests)
            assert listed(stop_before=relative[3]) == relative[:3]
            assert len(server.requests) - before <= 4  # what lies behind the bound is not asked for


def test_a_repeated_token_is_an_error_and_no_endless_loop() -> None:
    with (
        ScriptedS3(lambda *_: (200, page(contents("a"), token="same"))) as server,
        pytest.raises(FormatError, match="repeats"),
    ):
        list(open_reader("s3://bkt", server.options).list())


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(
    ("answer", "family"),
    [
        ((200, page(contents("a"))[:-60]), FormatError),
        ((200, "<html>hello</html>"), FormatError),
        ((403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"), ConfigError),
        ((404, "<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>"), ConfigError),
        ((503, "<Error><Code>SlowDown</Code><Message>no</Message></Error>"), UnavailableError),
        ((200, "<Error><Code>InternalError</Code><Message>no</Message></Error>"), UnavailableError),
    ],
)
def test_an_answer_that_is_no_listing_is_an_error(answer: Answer, family: type[Exception]) -> None:
    with ScriptedS3(lambda *_: answer) as server, pytest.raises(family):
        list(open_reader("s3://bkt", server.options).list())
