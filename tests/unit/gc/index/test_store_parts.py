"""Parts, manifests and checkpoints of the committed index: what is written, what is read of it, what counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dredge.errors import FormatError
from dredge.gc.index.store import CHECKPOINTS, MANIFESTS, CommittedIndex, IndexPart, read_part, write_part
from tests.support.index_parts import NAMESPACE, Kept, named, says

RANGES = [named("a", 1, 2, sizes=(5,)), named("b", 3, 4, 5, sizes=()), named("c", 6, sizes=(7, 8))]


def read(kept: Kept, part: IndexPart, with_sizes: Callable[[str], bool]) -> list[tuple[object, ...]]:
    return [says(found) for found in read_part(kept.state, part, with_sizes)]


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
