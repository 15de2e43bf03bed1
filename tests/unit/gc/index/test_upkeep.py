"""Parts of the committed index are united, compared with their ranges, and written anew.

The ranges here are numbers: what decoding gives of them is said by the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dredge.gc.index import upkeep
from dredge.gc.index.ranges import RangeHashes
from dredge.gc.index.store import NewPart, write_part
from dredge.gc.index.upkeep import Verified, rebuild_index, verify_index
from dredge.storage import open_writer
from tests.support.index_parts import NAMESPACE, Kept, named, says

type DecodeBy = Callable[[Callable[..., RangeHashes]], None]


@pytest.fixture(autouse=True)
def decode_by(monkeypatch: pytest.MonkeyPatch) -> DecodeBy:
    def use(decode: Callable[..., RangeHashes]) -> None:
        monkeypatch.setattr(upkeep, "_decode", decode)

    use(decoding())
    return use


def test_a_part_without_one_of_its_ranges_is_damaged_and_nothing_of_it_is_compared(kept: Kept) -> None:
    kept.add("p4", named("a"))
    part = write_part(kept.state, "p5", [named("b")])
    kept.index.add("p5-", [NewPart(part.part, ["b", "lost"], [2, 2])])
    kept.add("p6", named("c", 9))
    found = verify_index(open_writer(NAMESPACE), kept.state, NAMESPACE, against_ranges=True)
    assert found == Verified(ranges=4, parts=3, damaged=["p5"], wrong=["c"])


def decoding(**changed: object) -> Callable[..., RangeHashes]:
    """Decodes every range to the same, but for these fields; one whose name begins with x cannot be decoded."""

    def decode(_reader: object, _namespace: str, range_id: str, count: int) -> RangeHashes | None:
        if range_id.startswith("x"):
            return None
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


def rebuilt(kept: Kept, verified: Verified) -> int:
    return rebuild_index(open_writer(NAMESPACE), kept.state, NAMESPACE, "p1", verified)


def test_what_is_wrong_or_in_a_damaged_part_is_written_anew_and_nothing_else(kept: Kept) -> None:
    kept.add("p4", named("a"), named("b", 8, 9))
    kept.add("p5", named("d"))
    kept.add("p6", named("e"))
    assert rebuilt(kept, Verified(wrong=["b", "lost"], damaged=["p5", "gone"])) == 2
    assert kept.parts() == {"p1-rebuilt-0000": ["b", "d"], "p4": ["a"], "p6": ["e"]}
    assert [says(found) for found in kept.ranges("p1-rebuilt-0000")] == [says(named("b")), says(named("d"))]
