"""An expiration keeps refs by name and by age."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import Graph, build, local_storage
from tests.support.icechunk_expiring import expire

LINE = Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "2", "rel-1": "1", "old": "1"}, {"v1": "1"})
BOTH = {"delete_expired_branches": True, "delete_expired_tags": True}


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, set()),
        ({"keep_refs": "rel-*"}, {"branch:rel-1"}),
        ({"keep_refs": "tag:*, nothing"}, {"tag:v1"}),
        ({"keep_refs_younger_hours": 1.0}, {"branch:rel-1", "branch:old", "tag:v1"}),
    ],
)
def test_kept_refs_survive_an_expiration_of_everything(
    spec: int, settings: dict[str, Any], kept: set[str], tmp_path: Path
) -> None:
    ids = build(local_storage(tmp_path), LINE, spec)
    done = expire(f"file://{tmp_path}", datetime.now(UTC), **BOTH, **settings)

    after = read_history(open_reader(f"file://{tmp_path}"))
    assert {ref.label for ref in after.refs} == {"branch:main"} | kept
    assert {ref.label for ref in done.refs_deleted} == {"branch:rel-1", "branch:old", "tag:v1"} - kept
    # A kept tip stays in the history; without a ref it is released.
    assert (ids["1"] in after.snapshots) == bool(kept)
