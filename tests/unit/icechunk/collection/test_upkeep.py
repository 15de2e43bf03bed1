"""Compaction forgets what nothing needs, and keeps every live manifest where it is counted from."""

from __future__ import annotations

import numpy as np
import pytest

from dredge.icechunk.collection import upkeep
from dredge.icechunk.collection.index import ManifestIndex, write_manifest_rows
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.upkeep import _batches, _that_go, _wanted
from dredge.runs.summary import PartInfo
from tests.support.icechunk_repo import Repo

SMALL = upkeep._SMALL_BYTES


def index_of(heads: int = 0, **parts: tuple[int, list[str]]) -> ManifestIndex:
    """An index of parts with their sizes and manifests."""
    return ManifestIndex(
        manifest_parts={name: PartInfo(name, len(ids), size, "") for name, (size, ids) in parts.items()},
        manifests_of={name: ids for name, (_, ids) in parts.items()},
        heads=[f"head-{number}" for number in range(heads)],
    )


def test_live_manifest_is_wanted_of_the_first_part_that_has_it() -> None:
    index = index_of(c=(1, ["A", "B"]), a=(1, ["B", "X"]), b=(1, ["X"]), d=(1, ["B", "C", "D"]))
    assert _wanted(index, {"A", "B", "C", "L"}) == {"a": ["B"], "b": [], "c": ["A"], "d": ["C"]}


@pytest.mark.parametrize(
    ("parts_max", "heads", "going"),
    [(1, 0, ["a", "b", "d"]), (2, 2, None), (2, 3, ["a", "b", "d"]), (9, 9, None)],
)
def test_small_parts_are_united_when_there_are_many_or_many_heads(
    parts_max: int, heads: int, going: list[str] | None
) -> None:
    # Of d most is dead; it is not small, and too small to begin for it alone.
    index = index_of(
        heads,
        a=(SMALL - 1, ["A"]),
        b=(1, ["B"]),
        c=(SMALL, ["C", "X"]),
        d=(SMALL, ["X", "Y", "D"]),
    )
    index.manifest_parts["d"] = PartInfo("d", 3, SMALL, "")
    wanted = _wanted(index, {"A", "B", "C", "D"})
    found = _that_go(index, wanted, parts_max)
    assert found == (["d"] if going is None else going)


@pytest.mark.parametrize(
    ("sizes", "going"), [((SMALL // 2, SMALL // 2 - 1), None), ((SMALL // 2, SMALL // 2), ["a", "b"])]
)
def test_dead_parts_go_when_they_are_large_together(sizes: tuple[int, int], going: list[str] | None) -> None:
    index = index_of(a=(sizes[0], ["A", "X", "Y"]), b=(sizes[1], ["X"]), c=(SMALL * 9, ["C", "X"]))
    assert _that_go(index, _wanted(index, {"A", "C"}), 9) == going


def test_manifests_that_are_wanted_are_put_together_up_to_so_many_ids(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run = v1.plan()
    rows = {"a": {"A": 2, "X": 9}, "b": {"B": 1}, "c": {"C": 4}, "d": {"X": 9}, "e": {"E": 1}, "f": {"F": 1}}
    parts = {
        name: write_manifest_rows(
            run.state,
            name,
            [(manifest, np.arange(count, dtype=np.uint64)) for manifest, count in some.items()],
        )
        for name, some in rows.items()
    }
    index = ManifestIndex(
        manifest_parts=parts, manifests_of={name: list(some) for name, some in rows.items()}
    )
    run.state.put(parts["e"].name, b"torn")
    wanted = {"a": ["A"], "b": ["B"], "c": ["C"], "d": [], "e": ["E"], "f": ["F"]}
    monkeypatch.setattr(upkeep, "PART_IDS", 3)
    batches = [
        [(name, len(ids)) for name, ids in batch] for batch in _batches(run, index, wanted, [*"abcdef"])
    ]
    assert batches == [[("A", 2), ("B", 1)], [("C", 4)], [("F", 1)]]
    assert [[name for name, _ in batch] for batch in _batches(run, index, wanted, ["c"])] == [["C"]]
