"""Parts, manifests and checkpoints of the committed index: what is written, what is read of it, what counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import FormatError, UnavailableError
from dredge.gc.index.store import CHECKPOINTS, MANIFESTS, CommittedIndex, IndexPart, read_part, write_part
from dredge.runs.folder import parquet_bytes
from tests.support.index_parts import NAMESPACE, Kept, named, says

RANGES = [named("a", 1, 2, sizes=(5,)), named("b", 3, 4, 5, sizes=()), named("c", 6, sizes=(7, 8))]


def read(kept: Kept, part: IndexPart, with_sizes: Callable[[str], bool]) -> list[tuple[object, ...]]:
    return [says(found) for found in read_part(kept.state, part, with_sizes)]


def test_a_part_gives_back_what_it_was_written_with(kept: Kept) -> None:
    new = write_part(kept.state, "p", RANGES)
    assert (new.ids, new.counts) == (["a", "b", "c"], [2, 3, 1])
    assert read(kept, new.part, lambda _: True) == [says(item) for item in RANGES]
    assert read(kept, new.part, "b".__eq__) == [says(item) for item in RANGES]
    assert read(kept, write_part(kept.state, "empty", []).part, lambda _: True) == []


def test_sizes_that_nobody_wants_are_not_read(kept: Kept) -> None:
    part = write_part(kept.state, "p", RANGES).part
    part = replace(part, sizes=replace(part.sizes, name="gone"))
    without = [says(replace(item, sizes=item.sizes[:0])) for item in RANGES]
    assert read(kept, part, lambda _: False) == without
    with pytest.raises(FormatError, match="gone"):
        read(kept, part, "c".__eq__)


def test_a_part_whose_files_are_about_different_ranges_is_damaged(kept: Kept) -> None:
    one, other = (write_part(kept.state, name, [named(name)]).part for name in "ab")
    with pytest.raises(FormatError):
        read(kept, replace(one, sizes=other.sizes), lambda _: True)
    assert read(kept, replace(one, sizes=other.sizes), lambda _: False)


def test_a_part_that_is_not_as_it_was_written_is_damaged(kept: Kept) -> None:
    new = write_part(kept.state, "p", RANGES)
    other = write_part(kept.state, "other", RANGES[1:]).part
    kept.state.put(new.part.addresses.name, kept.state.get(other.addresses.name))
    with pytest.raises(FormatError):
        read(kept, new.part, lambda _: False)
    kept.damage(new)
    with pytest.raises(FormatError):
        read(kept, new.part, lambda _: False)


def test_the_newest_part_of_a_range_counts_and_only_for_the_number_of_records_it_has(kept: Kept) -> None:
    kept.add("p5", named("a", 1), named("b", 1))
    kept.add("p4", named("a", 1, 2))
    kept.add("p6", named("a", 1))
    index = kept.index
    assert index.places == {"a": ("p4", 2), "b": ("p5", 1)}
    assert [index.part_of("a", count) for count in (None, 1, 2)] == ["p4", None, "p4"]
    index.places["c"] = ("nowhere", 1)
    assert index.part_of("c") is None
    assert index.group("abcd") == ({"p4": ["a"], "p5": ["b"]}, ["c", "d"])


def test_a_manifest_without_a_word_about_its_parts_is_left_out(kept: Kept) -> None:
    kept.add("p5", named("a"))
    data = parquet_bytes(
        pa.table({"range_id": ["b"], "count": [1], "part": ["p5"]}).replace_schema_metadata()
    )
    kept.put_digested(f"{MANIFESTS}/p4", data)
    index = kept.index
    assert index.places == {"a": ("p5", 2)}
    assert [name.partition("-")[0] for name in index.distrusted] == [f"{MANIFESTS}/p4"]


def test_nothing_is_written_about_no_parts(kept: Kept) -> None:
    kept.index.add("p1-", [])
    kept.index.checkpoint("p1")
    for folder in (MANIFESTS, CHECKPOINTS):
        assert kept.state.list_level(f"{folder}/").objects == []


def test_what_could_not_be_recorded_does_not_count(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    index, new = kept.index, write_part(kept.state, "p5", [named("a")])

    def full(*_: Any) -> None:
        raise UnavailableError("the store is full")

    monkeypatch.setattr(type(kept.state), "put", full)
    with pytest.raises(UnavailableError):
        index.add("p5-", [new])
    assert index.places == {}


def test_the_newest_checkpoint_that_can_be_trusted_stands_for_all_before_it(kept: Kept) -> None:
    for name in ("p9", "p8", "p7"):
        kept.add(name, named(name))
        kept.index.checkpoint(name)
        if name == "p9":
            (first,) = kept.state.list_level(f"{CHECKPOINTS}/").objects
            kept.state.put(first.key, b"damaged: the next one does not know of it")
    (newest, older, oldest) = sorted(info.key for info in kept.state.list_level(f"{CHECKPOINTS}/").objects)
    manifests = {info.key for info in kept.state.list_level(f"{MANIFESTS}/").objects}
    assert kept.index.superseded == {older, oldest, *manifests}
    kept.state.put(newest, b"damaged")
    kept.add("p6", named("p6"))
    index = CommittedIndex.load(kept.state, NAMESPACE)
    assert index.distrusted == [newest]
    assert index.superseded == {oldest, *(name for name in manifests if "/p7" not in name)}
    assert index.places.keys() == {"p6", "p7", "p8", "p9"}
