"""Replacing folders of a content, against a model the size of a dict."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.lakefs.files.entries import Entry, Value
from dredge.lakefs.files.ranges import SplitRule
from dredge.storage import open_writer
from lakefs_embedded.committed import MetaRangeWriter, RangeStore
from lakefs_embedded.committed.replace import replace_below
from tests.support.memory_store import forget_memory_store

RULE = SplitRule(raggedness=3)
KEYS = st.text(alphabet="ab/", min_size=1, max_size=4).map(str.encode)
CONTENTS = st.dictionaries(KEYS, st.integers(0, 2), max_size=30)
PREFIXES = st.lists(st.text(alphabet="ab/", max_size=3).map(str.encode), max_size=3)


class CountingStore(RangeStore):
    """Counts the ranges it reads."""

    def __init__(self) -> None:
        super().__init__(open_writer("memory://replace"), cache_size=1)
        self.reads = 0

    def _get(self, table_id: str) -> bytes:
        self.reads += 1
        return super()._get(table_id)


@pytest.fixture
def store() -> Iterator[CountingStore]:
    yield CountingStore()
    forget_memory_store("replace")


def value(kind: int, address: str = "data/x") -> Value:
    return Entry(address, size=kind).value()


def write(store: RangeStore, content: dict[bytes, int]) -> str:
    if not content:
        return ""
    writer = MetaRangeWriter(store, RULE)
    for key in sorted(content):
        writer.add(key, value(content[key]))
    return writer.finish().id


def read(store: RangeStore, metarange_id: str) -> dict[bytes, Value]:
    return dict(store.list_entries(metarange_id))


@settings(max_examples=80)
@given(base=CONTENTS, prefixes=PREFIXES, records=CONTENTS)
def test_what_is_below_a_prefix_goes_what_is_new_comes_and_the_rest_stays(
    base: dict[bytes, int], prefixes: list[bytes], records: dict[bytes, int]
) -> None:
    store = CountingStore()
    new = {key: value(kind, f"s3://elsewhere/{kind}") for key, kind in records.items()}
    made = replace_below(store, write(store, base), prefixes, sorted(new.items()), RULE)
    kept = {key: value(kind) for key, kind in base.items() if not key.startswith(tuple(prefixes))}
    assert read(store, made.id) == kept | new
    assert made.count == len(kept | new)
    forget_memory_store("replace")


def test_untouched_ranges_are_named_again_and_not_read(store: CountingStore) -> None:
    content = {b"%s/%03d" % (folder, number): 1 for folder in (b"a", b"b", b"c") for number in range(300)}
    base = write(store, content)
    before = {info.id for info in store.get_metarange(base).ranges}
    store.reads = 0
    made = replace_below(store, base, [b"b/"], [(b"b/new", value(2))], RULE)
    after = {info.id for info in made.ranges}
    assert len(before & after) > len(before) * 0.6
    assert store.reads <= 4  # the metarange, and what reaches over the folder's two ends
