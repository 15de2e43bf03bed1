from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakefs_embedded.catalog.listing import fold
from tests.support.lakes import Lake, make_lake

PATHS = ["a", "a/1", "a/2/x", "a/2/y", "a/3", "a0", "b/", "b/1", "c//d", "c//e", "d"]


@pytest.fixture(params=["committed", "staged", "mixed"])
def lake(request: pytest.FixtureRequest) -> Lake:
    lake = make_lake()
    for number, path in enumerate(PATHS):
        lake.upload(path)
        if request.param == "mixed" and number % 3 == 2:
            lake.commit()
    if request.param == "committed":
        lake.commit()
    return lake


def page(lake: Lake, **query: object) -> list[str]:
    found = lake.catalog.reading.list_entries(lake.repository, "main", **query)  # type: ignore[arg-type]
    return [stats.path for stats in found.results]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, PATHS),
        ({"prefix": "a/"}, ["a/1", "a/2/x", "a/2/y", "a/3"]),
        ({"prefix": "a"}, ["a", "a/1", "a/2/x", "a/2/y", "a/3", "a0"]),
        ({"delimiter": "/"}, ["a", "a/", "a0", "b/", "c/", "d"]),
        ({"delimiter": "/", "prefix": "a/"}, ["a/1", "a/2/", "a/3"]),
        ({"delimiter": "/", "prefix": "c/"}, ["c//"]),
        ({"delimiter": "/", "prefix": "b/"}, ["b/", "b/1"]),
        ({"delimiter": "//"}, ["a", "a/1", "a/2/x", "a/2/y", "a/3", "a0", "b/", "b/1", "c//", "d"]),
        ({"delimiter": "/", "after": "a/"}, ["a0", "b/", "c/", "d"]),
        ({"delimiter": "/", "after": "a"}, ["a/", "a0", "b/", "c/", "d"]),
        ({"after": "a/2/x"}, ["a/2/y", "a/3", "a0", "b/", "b/1", "c//d", "c//e", "d"]),
        ({"prefix": "a/", "after": "z"}, []),
        ({"prefix": "b", "after": "a"}, ["b/", "b/1"]),
        ({"after": "d"}, []),
        ({"prefix": "nothing"}, []),
    ],
)
def test_pages_hold_what_was_asked_for(lake: Lake, query: dict[str, str], expected: list[str]) -> None:
    assert page(lake, **query) == expected


@pytest.mark.parametrize("delimiter", ["", "/", "2"])
@pytest.mark.parametrize("prefix", ["", "a", "a/"])
@pytest.mark.parametrize("amount", [1, 2, 3])
def test_pages_put_together_are_the_whole(lake: Lake, delimiter: str, prefix: str, amount: int) -> None:
    whole = page(lake, delimiter=delimiter, prefix=prefix)
    pages, after = [], ""
    while True:
        found = lake.catalog.reading.list_entries(
            lake.repository, "main", delimiter=delimiter, prefix=prefix, after=after, amount=amount
        )
        assert len(found.results) <= amount
        pages += [stats.path for stats in found.results]
        if not found.has_more:
            assert found.next_offset == ""
            break
        after = found.next_offset
    assert pages == whole


TEXT = st.text(alphabet="ab/", max_size=4).map(str.encode)
KEYS = st.sets(st.one_of(TEXT, st.binary(max_size=3)).filter(bool), max_size=12)


@settings(deadline=None)
@given(KEYS, TEXT, st.sampled_from([b"", b"/", b"a", b"ab", b"\xff"]), TEXT)
def test_folding_equals_reading_everything(
    keys: set[bytes], prefix: bytes, delimiter: bytes, after: bytes
) -> None:
    order = sorted(keys)
    expected: list[bytes] = []
    for key in order:
        if not key.startswith(prefix) or key < after:
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if cut < 0 else key[: cut + len(delimiter)]
        if name != after and name not in expected:
            expected.append(name)
    found = fold(lambda start: ((key, 0) for key in order if key >= start), prefix, delimiter, after)
    assert [name for name, _ in found] == expected
