"""Promises of coverage."""

from __future__ import annotations

from tests.simulation.coverage import Coverage


def test_coverage_counts_what_met_of_what_could() -> None:
    coverage = Coverage()
    coverage.begin("sweep")
    coverage.weather("sweep", "slow")
    coverage.move("upload")
    coverage.move("commit")
    coverage.end("sweep")
    steps, kinds, verbs = ("list", "sweep"), ("slow", "kv down"), ("upload", "commit", "merge")
    assert coverage.figure(steps, kinds, verbs) == (2, 12)
    assert coverage.figure(steps, kinds, verbs, {("list", "kv down"), ("sweep", "slow")}) == (0, 6)
