"""Sets in files, a file for each shard."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json, to_json
from dredge.sets.hashes import shard_of, split, unite, write_hashes
from dredge.sets.live import ShardedSet
from dredge.storage import open_writer

values = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1]), max_size=50)


def hashes(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint64)


@given(values, values, st.integers(0, 4))
def test_shards_together_are_the_set(known: list[int], wanted: list[int], bits: int) -> None:
    folder = RunFolder(open_writer("memory://sets"), "run")
    pieces = split(unite([hashes(known)]), bits)
    assert len(pieces) == 1 << bits
    for number, piece in enumerate(pieces):
        assert set(shard_of(piece, bits).tolist()) <= {number}
    parts = [
        write_hashes(folder, f"x-{number:04d}.u64", piece)
        for number, piece in enumerate(pieces)
        if len(piece)
    ]
    found = from_json(ShardedSet, to_json(ShardedSet.of(parts, bits)))
    assert found.values == len(set(known))
    half = len(wanted) // 2
    answers = found.find(folder, [hashes(wanted[:half]), hashes(wanted[half:])])
    assert [bool(value) for answer in answers for value in answer] == [
        value in set(known) for value in wanted
    ]
