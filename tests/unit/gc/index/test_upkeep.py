"""Parts of the committed index are united, compared with their ranges, and written anew.

The ranges here are numbers: what decoding gives of them is said by the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.gc.index import upkeep
from dredge.gc.index.decoding import RangeHashes
from dredge.gc.index.store import NewPart, write_part
from dredge.gc.index.upkeep import Verified, compact, rebuild_index, verify_index
from dredge.storage import open_writer
from tests.support.index_parts import NAMESPACE, Kept, named, says

type DecodeBy = Callable[[Callable[..., RangeHashes]], None]


@pytest.fixture(autouse=True)
def decode_by(monkeypatch: pytest.MonkeyPatch) -> DecodeBy:
    """Decode ranges by `decoding()`, or by what a test gives."""

    def use(decode: Callable[..., RangeHashes]) -> None:
        monkeypatch.setattr(upkeep, "_decode", decode)

    use(decoding())
    return use


def test_of_the_parts_that_are_united_only_what_is_looked_up_goes_along(kept: Kept) -> None:
    a, c = named("a", 1, 2, 3), named("c", 4, sizes=(5, 6))
    kept.add("p4", a, named("b"))
    kept.add("p5", c)
    kept.add("p6", named("d"))
    assert compact(kept.state, NAMESPACE, "p1", ["a", "c"], parts_max=1) == 2
    assert kept.parts() == {"p1-compacted-0000": ["a", "c"], "p4": ["b"], "p6": ["d"]}
    assert [says(found) for found in kept.ranges("p1-compacted-0000")] == [says(a), says(c)]


def test_nothing_is_united_as_long_as_there_are_no_more_small_parts_than_may_be(kept: Kept) -> None:
    for name in "567":
        kept.add(f"p{name}", named(name))
    before = kept.files()
    assert compact(kept.state, NAMESPACE, "p1", "567", parts_max=3) == 0
    assert kept.files() == before
    assert compact(kept.state, NAMESPACE, "p1", "567", parts_max=2) == 3


def test_a_part_is_small_below_the_length_of_both_its_files(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = kept.add("p5", named("a")).part
    size = sum(len(kept.state.get(file.name)) for file in (part.addresses, part.sizes))
    assert upkeep._SMALL_BYTES == 4_000_000, "a quarter of a full one"
    monkeypatch.setattr(upkeep, "_SMALL_BYTES", size)
    assert compact(kept.state, NAMESPACE, "p1", ["a"], parts_max=0) == 0
    monkeypatch.setattr(upkeep, "_SMALL_BYTES", size + 1)
    assert compact(kept.state, NAMESPACE, "p1", ["a"], parts_max=0) == 1


@pytest.mark.parametrize(("parts", "written"), [(5, [2, 2, 1]), (4, [2, 2])])
def test_a_part_is_full_once_it_has_as_many_hashes_and_sizes_as_may_be(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, parts: int, written: list[int]
) -> None:
    monkeypatch.setattr(upkeep, "_PART_VALUES", 6)
    names = [f"p{number}" for number in range(4, 4 + parts)]
    for name in names:
        kept.add(name, named(name, 1, 2))  # and a size
    before = kept.files()
    assert compact(kept.state, NAMESPACE, "p1", names, parts_max=1) == parts
    assert [len(ids) for ids in kept.parts().values()] == written
    assert len(kept.files() - before) == 2 * len(written)


def test_a_damaged_part_is_left_as_it_is_while_others_are_united(kept: Kept) -> None:
    kept.add("p4", named("a"))
    damaged = kept.add("p5", named("b"))
    kept.add("p6", named("c"))
    kept.damage(damaged)
    assert compact(kept.state, NAMESPACE, "p1", "abc", parts_max=1) == 2
    assert kept.parts() == {"p1-compacted-0000": ["a", "c"], "p5": ["b"]}


def test_what_was_united_is_in_a_checkpoint(kept: Kept) -> None:
    for name in "abc":
        kept.add(f"p{name}", named(name))
    compact(kept.state, NAMESPACE, "p1", "abc", parts_max=1)
    index = kept.index
    assert len(index.superseded) == 4, "the manifests of three parts and of theirs together"
    assert index.distrusted == []


@pytest.mark.parametrize(
    ("found", "is_good"),
    [
        (Verified(), True),
        (Verified(unread=["x"]), True),
        (Verified(damaged=["x"]), False),
        (Verified(wrong=["x"]), False),
    ],
)
def test_an_index_is_good_unless_a_part_is_damaged_or_a_range_wrong(found: Verified, is_good: bool) -> None:
    assert found.is_good is is_good


def test_a_part_without_one_of_its_ranges_is_damaged_and_nothing_of_it_is_compared(kept: Kept) -> None:
    kept.add("p4", named("a"))
    part = write_part(kept.state, "p5", [named("b")])
    kept.index.add("p5-", [NewPart(part.part, ["b", "lost"], [2, 2])])
    kept.add("p6", named("c", 9))
    found = verify_index(open_writer(NAMESPACE), kept.state, NAMESPACE, against_ranges=True)
    assert found == Verified(ranges=4, parts=3, damaged=["p5"], wrong=["c"])


def decoding(**changed: object) -> Callable[..., RangeHashes]:
    """Decodes every range to the same, but for these fields; one whose name begins with x cannot be decoded."""

    def decode(_reader: object, _namespace: str, range_id: str, count: int) -> RangeHashes:
        if range_id.startswith("x"):
            raise FormatError("damaged")
        return replace(named(range_id), **{"count": count, **changed})  # type: ignore[arg-type]

    return decode


@pytest.mark.parametrize(
    "changed",
    [
        {"count": 3},
        {"outside": 1},
        {"addresses": np.array([1, 3], np.uint64)},
        {"sizes": np.array([8], np.uint64)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_range_is_wrong_when_anything_that_is_kept_of_it_differs(
    kept: Kept, decode_by: DecodeBy, changed: dict[str, object]
) -> None:
    kept.add("p4", named("a"), named("x"))
    found = []
    for decode in (decoding(), decoding(**changed)):
        decode_by(decode)
        found.append(verify_index(open_writer(NAMESPACE), kept.state, NAMESPACE, against_ranges=True))
    assert [(item.wrong, item.unread) for item in found] == [([], ["x"]), (["a"], ["x"])]


def test_ranges_are_decoded_only_where_that_is_asked_for(kept: Kept, decode_by: DecodeBy) -> None:
    decode_by(lambda *_: pytest.fail("decoded"))
    kept.add("p4", named("a"))
    found = verify_index(open_writer(NAMESPACE), kept.state, NAMESPACE, against_ranges=False)
    assert found == Verified(ranges=1, parts=1)


def rebuilt(kept: Kept, verified: Verified) -> int:
    return rebuild_index(open_writer(NAMESPACE), kept.state, NAMESPACE, "p1", verified)


def test_what_is_wrong_or_in_a_damaged_part_is_written_anew_and_nothing_else(kept: Kept) -> None:
    kept.add("p4", named("a"), named("b", 8, 9))
    kept.add("p5", named("d"))
    kept.add("p6", named("e"))
    assert rebuilt(kept, Verified(wrong=["b", "lost"], damaged=["p5", "gone"])) == 2
    assert kept.parts() == {"p1-rebuilt-0000": ["b", "d"], "p4": ["a"], "p6": ["e"]}
    assert [says(found) for found in kept.ranges("p1-rebuilt-0000")] == [says(named("b")), says(named("d"))]


@pytest.mark.parametrize(("count", "parts"), [(256, [256]), (257, [256, 1])])
def test_a_part_that_is_written_anew_has_at_most_256_ranges(kept: Kept, count: int, parts: list[int]) -> None:
    names = [f"r{number:03d}" for number in range(count)]
    kept.add("p4", *map(named, names))
    assert rebuilt(kept, Verified(wrong=names)) == count
    assert [len(ids) for ids in kept.parts().values()] == parts


@pytest.mark.parametrize(
    ("wrong", "anew"), [(["a", "x", "z"], ["a", "z"]), (["a", "b", "x"], ["a", "b"]), (["x", "xx"], [])]
)
def test_ranges_that_cannot_be_decoded_are_left_out_and_the_others_are_not(
    kept: Kept, wrong: list[str], anew: list[str]
) -> None:
    kept.add("p4", *map(named, wrong))
    before = kept.files()
    assert rebuilt(kept, Verified(wrong=wrong)) == len(anew)
    assert kept.parts().get("p1-rebuilt-0000", []) == anew
    assert len(kept.files() - before) == 2 * bool(anew)
