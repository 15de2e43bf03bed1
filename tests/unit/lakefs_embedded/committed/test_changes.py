"""Diff, apply and merge against models the size of a dict."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.lakefs.files.ranges import Value
from dredge.storage import open_writer
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.merge import DiffKind, MergeConflictError, Strategy, diff, merge
from lakefs_embedded.committed.store import RangeStore
from lakefs_embedded.committed.writing import Change, MetaRangeWriter, SplitRule, apply
from tests.support.memory_store import forget_memory_store

RULE = SplitRule(raggedness=3)
type Content = dict[bytes, int]

KEYS = st.integers(0, 40).map(lambda number: b"k%02d" % number)
CONTENTS = st.dictionaries(KEYS, st.integers(0, 2), max_size=30)


def value(kind: int, address: str = "") -> Value:
    return Entry(address or f"data/{kind}", size=kind).value()


class CountingStore(RangeStore):
    def __init__(self, name: str) -> None:
        super().__init__(open_writer(f"memory://{name}"), cache_size=1)
        self.reads: list[str] = []
        self.writes: list[str] = []

    def _get(self, table_id: str) -> bytes:
        self.reads.append(table_id)
        return super()._get(table_id)

    def put(self, table) -> None:  # type: ignore[no-untyped-def]
        self.writes.append(table.id)
        super().put(table)


@pytest.fixture
def store() -> Iterator[CountingStore]:
    yield CountingStore("changes")
    forget_memory_store("changes")


def write(store: RangeStore, content: Content, rule: SplitRule = RULE) -> str:
    if not content:
        return ""
    writer = MetaRangeWriter(store, rule)
    for key in sorted(content):
        writer.add(key, value(content[key]))
    return writer.finish().id


def read(store: RangeStore, metarange_id: str) -> Content:
    return {key: Entry.decode(found.data, "x").size for key, found in store.list_entries(metarange_id)}


def model_merge(base: Content, source: Content, destination: Content, strategy: Strategy) -> Content | None:
    result = {}
    for key in base.keys() | source.keys() | destination.keys():
        b, s, d = base.get(key), source.get(key), destination.get(key)
        if s in (d, b):
            chosen = d
        elif d == b or strategy is Strategy.SOURCE_WINS:
            chosen = s
        elif strategy is Strategy.DESTINATION_WINS:
            chosen = d
        else:
            return None
        if chosen is not None:
            result[key] = chosen
    return result


@settings(max_examples=80, deadline=None)
@given(CONTENTS, CONTENTS)
def test_diff_names_exactly_the_paths_that_differ(left: Content, right: Content) -> None:
    store = RangeStore(open_writer("memory://diff"))
    found = {item.key: item.kind for item in diff(store, write(store, left), write(store, right))}
    expected = {}
    for key in left.keys() | right.keys():
        if key not in right:
            expected[key] = DiffKind.REMOVED
        elif key not in left:
            expected[key] = DiffKind.ADDED
        elif left[key] != right[key]:
            expected[key] = DiffKind.CHANGED
    assert found == expected
    assert list(found) == sorted(found)


@settings(max_examples=80, deadline=None)
@given(CONTENTS, st.dictionaries(KEYS, st.none() | st.integers(0, 2), max_size=12))
def test_apply_gives_base_with_changes_on_top(base: Content, changes: dict[bytes, int | None]) -> None:
    store = RangeStore(open_writer("memory://apply"))
    base_id = write(store, base)
    todo = [Change(key, None if changes[key] is None else value(changes[key])) for key in sorted(changes)]  # type: ignore[arg-type]
    applied = apply(store, base_id, todo, RULE)
    expected = {key: kind for key, kind in (base | changes).items() if kind is not None}
    assert read(store, applied.metarange_id) == expected
    assert applied.added == len(expected.keys() - base.keys())
    assert applied.removed == len(base.keys() - expected.keys())
    assert applied.changed == sum(base[key] != expected[key] for key in base.keys() & expected.keys())
    assert applied.anything == (base != expected)
    assert applied.anything or applied.metarange_id == base_id


@settings(max_examples=120, deadline=None)
@given(CONTENTS, st.data(), st.sampled_from(Strategy))
def test_merge_of_two_edits_of_one_base_follows_the_model(
    base: Content, data: st.DataObject, strategy: Strategy
) -> None:
    """As above, but made by apply, so that the sides share ranges."""
    store = RangeStore(open_writer("memory://merge"))
    base_id = write(store, base)
    ids, contents = [], []
    for _ in range(2):
        edits = data.draw(st.dictionaries(KEYS, st.none() | st.integers(0, 2), max_size=4))
        changes = [Change(key, None if edits[key] is None else value(edits[key])) for key in sorted(edits)]  # type: ignore[arg-type]
        ids.append(apply(store, base_id, changes, RULE).metarange_id)
        contents.append({key: kind for key, kind in (base | edits).items() if kind is not None})
    expected = model_merge(base, contents[0], contents[1], strategy)
    if expected is None:
        with pytest.raises(MergeConflictError):
            merge(store, base_id, ids[0], ids[1], strategy, RULE)
    else:
        assert read(store, merge(store, base_id, ids[0], ids[1], strategy, RULE)) == expected


def big(store: RangeStore, **edits: int) -> str:
    content = {b"k%04d" % number: 0 for number in range(300)}
    return write(store, content | {key.encode(): kind for key, kind in edits.items()})


def test_a_value_with_the_identity_of_the_committed_one_keeps_the_old_address(store: CountingStore) -> None:
    base_id = big(store)
    applied = apply(store, base_id, [Change(b"k0150", value(0, "data/uploaded-again"))], RULE)
    assert applied.metarange_id == base_id
    assert not applied.anything
    both = [Change(b"k0150", value(0, "data/uploaded-again")), Change(b"k0151", value(1))]
    after = store.get_entry(apply(store, base_id, both, RULE).metarange_id, b"k0150")
    assert after is not None
    assert Entry.decode(after.data, "x").address == "data/0"


def test_equal_ranges_are_stepped_over_unread_by_diff_and_merge(store: CountingStore) -> None:
    base_id, source_id, destination_id = big(store), big(store, k0100=1), big(store, k0200=1)
    store.reads.clear()
    assert [item.key for item in diff(store, source_id, destination_id)] == [b"k0100", b"k0200"]
    assert len(set(store.reads)) == 2 + 4
    store.reads.clear(), store.writes.clear()
    merged = merge(store, base_id, source_id, destination_id, rule=RULE)
    assert merged == big(store, k0100=1, k0200=1)
    assert set(store.reads) <= {base_id, source_id, destination_id}
    assert store.writes[:1] == [merged]
