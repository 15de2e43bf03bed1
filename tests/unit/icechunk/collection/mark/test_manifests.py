"""Manifests are spread over tasks of about equal work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import ManifestIndex, read_manifest_rows
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.mark.manifests import equal_shares, index_manifests
from dredge.icechunk.collection.mark.output import chunk_set_name
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import hashes_of
from dredge.runs.payload import to_json
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.sets.live import CountedSet
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()

REFS = {f"M{number:02d}": number * 1000 for number in range(20)}


def test_every_manifest_is_in_one_share_and_large_ones_are_apart() -> None:
    shares = equal_shares(REFS, refs_per_task=50_000, parallelism=2)
    assert len(shares) == 5  # 190,000 references, and 20 files that cost as much as 1,000 each
    assert {manifest: count for share in shares for manifest, count in share.items()} == REFS
    assert sum(map(len, shares)) == len(REFS)
    assert [max(share.values()) for share in shares] == [19_000, 18_000, 17_000, 16_000, 15_000]


def test_there_are_as_many_shares_as_tasks_can_run_at_once() -> None:
    assert len(equal_shares(REFS, refs_per_task=10**9, parallelism=4)) == 4
    assert len(equal_shares({"A": 1}, refs_per_task=1, parallelism=4)) == 1
    assert equal_shares({}, refs_per_task=1, parallelism=4) == []


def references(repo: Repo, *nodes: str) -> dict[str, int]:
    return {
        info.id: info.num_chunk_refs
        for node in nodes
        for info in repo.library.list_manifest_files(repo.ids[node])
    }


def read(run: Run, refs: dict[str, int], digests: bool) -> tuple[dict[str, str], ManifestIndex]:
    """Index manifests in a try of its own, as a run of its own would."""
    with run.folder.writing(StepTry.claim(run.folder.writer, "mark")):
        index = ManifestIndex.load(run.state)
        return index_manifests(run, HERE, index, refs, run.folder.label, digests), index


@pytest.mark.parametrize("digests", [True, False])
def test_manifest_that_the_index_lacks_is_read_once_and_its_bytes_are_digested_where_asked(
    v1: Repo, digests: bool
) -> None:
    run = v1.plan(tuning=Tuning(refs_per_task=1))
    first, whole = references(v1, "1"), references(v1, "1", "7", "14")
    assert len(whole) > len(first) > 0

    def expected(manifests: Iterable[str]) -> dict[str, str]:
        data = {manifest: (v1.folder / "manifests" / manifest).read_bytes() for manifest in manifests}
        return {manifest: hashlib.md5(data[manifest]).hexdigest() if digests else "" for manifest in data}

    found, index = read(run, first, digests)
    assert found == expected(first)
    found, index = read(run, whole, digests)
    assert found == expected(whole.keys() - first.keys())
    assert read(run, whole, digests)[0] == {}
    assert {manifest for ids in index.manifests_of.values() for manifest in ids} == whole.keys()
    for part in index.manifest_parts.values():
        for manifest, named in read_manifest_rows(run.state, part):
            arrays = parse_manifest((v1.folder / "manifests" / manifest).read_bytes(), "").arrays
            chunks = {int(one) for array in arrays for one in hashes_of(array.ids[array.kind == NATIVE])}
            assert set(named.native.tolist()) == chunks


def test_result_of_a_mark_gives_its_sets_by_shard_and_its_counts() -> None:
    parts = tuple(
        PartInfo(chunk_set_name(task, shard), task + 1, 1, "") for task in (0, 1) for shard in (0, 3)
    )
    now = datetime(2026, 5, 1, tzinfo=UTC)
    details = {"chunk_bits": 2, "counted": to_json(CountedSet(2, ()))}
    summary = StepSummary("mark", "r", "success", now, now, parts=parts, details=details)
    found = MarkOutput.of(summary)
    assert found.chunk_shards == [[parts[0], parts[2]], [], [], [parts[1], parts[3]]]
    assert found.chunks == 6
    assert found.counted is not None
    assert (found.counted.bits, found.counted.parts) == (2, [])
    assert MarkOutput.of(replace(summary, details={"chunk_bits": 2})).counted is None
