"""The branch heads that have entries of wanted sizes: who could serve a copy, and at which of its paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dredge.gc.check_limits.places import Numbers, Places
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.lakefs.files.ranges import read_metarange
from dredge.sets.hashes import Hashes


@dataclass(frozen=True, slots=True)
class Head:
    """What some branches have in common.

    Attributes:
        branches: names.
        ranges: those with wanted entries, in key order, and how many entries come before each.
    """

    branches: list[str]
    ranges: list[tuple[str, int]]

    def rows(self, places: Places, wanted: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """The wanted places, and their positions in the head."""
        rows, ranks = [], []
        for range_id, before in self.ranges:
            span = places.ranges[range_id]
            found = span.start + np.flatnonzero(wanted[span.start : span.stop])
            rows.append(found)
            ranks.append(places.ranks[found] + before)
        nothing = np.empty(0, np.int64)
        return np.concatenate([nothing, *rows]), np.concatenate([nothing, *ranks])


def heads_of_the_mark(run: Run, committed: ListCommittedOutput) -> list[tuple[str, str]]:
    """Every branch with each head that it had when staging was read or later, by its metarange."""
    table = run.folder.read_part(committed.branches)
    return list(zip(table["branch"].to_pylist(), table["metarange_id"].to_pylist(), strict=True))


def find_heads(run: Run, seen: Iterable[tuple[str, str]], places: Places) -> list[Head]:
    """Find the heads that have wanted entries, and the branches that had them.

    Args:
        run: this run.
        seen: branches, each with the metarange of a head that it had.
        places: wanted entries; heads without any are left out.
    """
    branches: dict[str, list[str]] = defaultdict(list)
    for branch, metarange in dict.fromkeys(seen):
        if metarange:
            branches[metarange].append(branch)
    heads: list[Head] = []
    for key, data in run.reader.get_many([METADATA + metarange for metarange in sorted(branches)]):
        ranges, before = [], 0
        for item in read_metarange(data, key).ranges:
            if item.id in places.ranges:
                ranges.append((item.id, before))
            before += item.count
        if ranges:
            heads.append(Head(branches[key.removeprefix(METADATA)], ranges))
    return heads


def weigh(sizes: Hashes, places: Places, heads: list[Head]) -> Numbers:
    """Count the paths of branches that could serve an object of each size."""
    branches: dict[str, int] = defaultdict(int)
    for head in heads:
        for range_id, _ in head.ranges:
            branches[range_id] += len(head.branches)
    weights = np.zeros(len(sizes), np.int64)
    for range_id, span in places.ranges.items():
        found = np.searchsorted(sizes, places.sizes[span.start : span.stop])
        np.add.at(weights, found, branches[range_id])
    return weights
