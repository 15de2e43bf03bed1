"""Compaction forgets what nothing needs, and keeps every live manifest where it is counted from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dredge.errors import LeaseHeldError, UnavailableError
from dredge.icechunk.collection import upkeep
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import ManifestIndex, write_manifest_rows, write_snapshot_rows
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state.advance import advance_state
from dredge.icechunk.collection.state.output import StateOutput
from dredge.icechunk.collection.steps import collect, release_lease, run_steps
from dredge.icechunk.collection.upkeep import _batches, _that_go, _wanted, compact_index, keep_small
from dredge.icechunk.format.manifests import NamedChunks
from dredge.icechunk.maintenance import make_lease
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.versions import Version
from tests.support.icechunk_repo import Repo, change_number

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
            [(manifest, NamedChunks(np.arange(count, dtype=np.uint64))) for manifest, count in some.items()],
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
        [(name, len(chunks.native)) for name, chunks in batch]
        for batch in _batches(run, index, wanted, [*"abcdef"])
    ]
    assert batches == [[("A", 2), ("B", 1)], [("C", 4)], [("F", 1)]]
    assert [[name for name, _ in batch] for batch in _batches(run, index, wanted, ["c"])] == [["C"]]


def after_runs(repo: Repo, parts_max: int) -> tuple[Run, Version]:
    """A run that has moved the state on; it and two before it have each added a part of manifests to the index."""
    collect(repo.config(mode="auto"))
    for number in range(2):
        session = repo.library.writable_session("main")
        change_number(session, number)
        session.commit(f"number {number}")
        if not number:
            collect(repo.config(mode="auto"))
    run = repo.plan(mode="auto", tuning=Tuning(index_parts_max=parts_max))
    run_steps(run, LocalRunner())
    moved = advance_state(run)
    assert moved is not None
    return run, StateOutput.of(moved).version


def test_large_part_stays_as_it_is_and_every_live_manifest_is_in_one_part_afterwards(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, version = after_runs(v1, parts_max=1)
    before = ManifestIndex.load(run.state).manifest_parts
    large, *small = sorted(before, key=lambda name: -before[name].size_bytes)
    monkeypatch.setattr(upkeep, "_SMALL_BYTES", before[large].size_bytes)
    assert compact_index(run, version) == len(small) == 2
    index = ManifestIndex.load(run.state)
    assert index.manifest_parts[large] == before[large]
    assert len(index.manifest_parts) == 2
    assert index.manifest_parts.keys().isdisjoint(small)
    named = [manifest for ids in index.manifests_of.values() for manifest in ids]
    assert sorted(named) == sorted(path.name for path in (v1.folder / "manifests").iterdir())


def test_index_with_few_parts_is_left_alone(v1: Repo) -> None:
    run, version = after_runs(v1, parts_max=9)
    before = v1.metadata()
    assert compact_index(run, version) == 0
    assert v1.metadata() == before


def test_run_that_lost_its_lease_leaves_the_index_to_whoever_has_it(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, version = after_runs(v1, parts_max=1)
    heads = ManifestIndex.load(run.state).heads

    def overtaken(*given: Any) -> PartInfo:
        release_lease(run)
        make_lease(run.state, 60).acquire("somebody else")
        return write_snapshot_rows(*given)

    monkeypatch.setattr(upkeep, "write_snapshot_rows", overtaken)
    with pytest.raises(LeaseHeldError):
        compact_index(run, version)
    assert ManifestIndex.load(run.state).heads == heads


def test_whatever_goes_wrong_with_the_compaction_is_a_warning(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> int:
        raise UnavailableError("the store is away")

    monkeypatch.setattr(upkeep, "compact_index", away)
    keep_small(v1.plan(), Version("state/versions/x.json", "ab"))
    assert "the store is away" in caplog.messages[-1]
