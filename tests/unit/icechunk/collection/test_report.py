"""What a report says of snapshots that an expiration released."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.icechunk_repo import expired_sample


@pytest.mark.parametrize("spec", [1, 2])
def test_released_snapshots_that_are_young_are_not_called_needed(spec: int, tmp_path: Path) -> None:
    repo = expired_sample(tmp_path, spec)
    found = repo.collect(unsafe_min_age_seconds=None, dry_run=True)
    kept = {row["why"]: row["objects"] for row in found["rows"] if row["kind"] == "snapshots"}
    assert kept == {"needed": 10, "released, younger than the cutoff": 5}
