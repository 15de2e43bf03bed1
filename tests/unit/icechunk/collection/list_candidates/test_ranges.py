"""Ranges tile a folder exactly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dredge.icechunk.collection.list_candidates.listing import NameRange, bounds_for
from dredge.icechunk.collection.steps import collect
from tests.support.icechunk_repo import Repo, split_local_folders


def test_names_equal_to_a_bound_are_listed_by_exactly_one_range(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0", "A", "AG", "AG0", "ZG", "a", "_"):
        (repo.folder / "chunks" / name).write_bytes(b"")
    split_local_folders(monkeypatch)
    report = collect(repo.config(dry_run=True))
    assert report["kinds"]["chunks"]["foreign"] == 7


@pytest.mark.parametrize(("expected", "ranges"), [(100, 1), (101, 32), (3200, 32), (3201, 1024)])
def test_folders_are_split_by_how_much_they_hold(expected: int, ranges: int) -> None:
    bounds = bounds_for(expected, 100, is_remote=True)
    assert len(bounds) == ranges + 1
    assert bounds[0] == bounds[-1] == ""
    assert bounds_for(expected, 100, is_remote=False) == ["", ""]


@pytest.mark.parametrize("expected", [1, 101, 3201])
def test_every_id_falls_into_exactly_one_range_and_that_into_its_shards(expected: int) -> None:
    bounds = bounds_for(expected, 100, is_remote=True)
    found = [NameRange(prefix="chunks/", low=low, high=high) for low, high in pairwise(bounds)]
    rng = np.random.default_rng(4)
    bounds_of_ids = {number for names in found for number in names.numbers}
    edges = np.array(sorted(bounds_of_ids | {number - 1 for number in bounds_of_ids - {0}}), np.uint64)
    ids = np.unique(np.concatenate([edges, rng.integers(0, 2**64, 5000, dtype=np.uint64)]))
    parts = [names.part_of(ids) for names in found]
    assert np.array_equal(np.concatenate(parts), ids)
    for bits in (0, 3, 10):
        for names, part in zip(found, parts, strict=True):
            assert {int(number) >> (64 - bits) for number in part} <= set(names.shards(bits))
