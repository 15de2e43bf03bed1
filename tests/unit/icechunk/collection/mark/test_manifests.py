"""Manifests are spread over tasks of about equal work."""

from __future__ import annotations

from dredge.icechunk.collection.mark.manifests import equal_shares

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
