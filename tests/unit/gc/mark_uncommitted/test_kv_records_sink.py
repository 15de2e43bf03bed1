"""What is said of the staging records: that they had everything the server showed, and what else they had."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dredge.gc.mark_uncommitted import kv_records
from dredge.gc.mark_uncommitted.kv_records import Records, _Sink
from dredge.gc.mark_uncommitted.kv_standing import Standing
from dredge.hashing import hash64


class Files:
    """Takes addresses, and gives their hashes."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []

    def write(self, addresses: pa.Array) -> Any:
        self.written.append(addresses.to_pylist())
        return np.unique(hash64(addresses))


def sink_of(shown: Sequence[str]) -> tuple[_Sink, Files]:
    files = Files()
    taken: Any = files
    return _Sink(taken, np.unique(hash64(pa.array([*shown], pa.string())))), files


@pytest.mark.parametrize(
    ("missing", "refuted", "partial", "exact"),
    [(0, False, False, True), (1, False, False, False), (0, True, False, False), (0, False, True, False)],
)
def test_records_are_exact_when_nothing_is_missing_and_nothing_speaks_against_them(
    missing: int, refuted: bool, partial: bool, exact: bool
) -> None:
    standing = Standing("", refuted=refuted, partial=partial)
    assert Records(standing=standing, unseen=5, missing=missing).exact is exact


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("seed", range(3))
def test_what_the_server_did_not_show_is_written_and_what_records_lack_is_counted(
    monkeypatch: pytest.MonkeyPatch, batch: int, seed: int
) -> None:
    monkeypatch.setattr(kv_records, "_BATCH_ROWS", batch)
    chance = random.Random(seed)
    shown = [f"data/{number}" for number in range(10)]
    entries = [
        tuple(f"data/{number}" for number in chance.sample(range(20), chance.randrange(3))) for _ in range(12)
    ]
    named = {key for keys in entries for key in keys}
    sink, files = sink_of(shown)
    assert sink.take(entries[:5]) == 5
    assert sink.take(entries[5:]) == 7
    sink.finish()
    assert {key for keys in files.written for key in keys} == named.difference(shown)
    assert sink.unseen == len(named.difference(shown))
    assert sink.missing == len(set(shown) - named)
    assert all(len(keys) <= batch + 1 for keys in files.written)
