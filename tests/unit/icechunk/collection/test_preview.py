"""A dry run can report what a collection would delete after an expiration that is only planned."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.repository import read_history
from dredge.runs.payload import from_json, to_json
from dredge.storage import open_reader
from tests.support.icechunk import build, graph_of, local_storage, objects, scenarios
from tests.support.icechunk_expiring import expire


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Expiration]:
    folder = tmp_path / "repo"
    ids = build(local_storage(folder), graph_of(scenarios()[0]), request.param)
    times = read_history(open_reader(f"file://{folder}")).snapshots
    middle = instant((times[ids["7"]].flushed_at + times[ids["8"]].flushed_at) // 2)
    return folder, Expiration(threshold=middle.isoformat(), delete_expired_tags=True)


def config(folder: Path, **changes: Any) -> CollectConfig:
    settings = {"unsafe_min_age_seconds": 0, "unsafe_grace_seconds": 0, "max_delete_percent": None} | changes
    return CollectConfig(uri=f"file://{folder}", **settings)


def figures(report: dict[str, Any], what: str) -> dict[str, tuple[int, int]]:
    # The size of a snapshot file changes by a few bytes when its expiration edits it before its tag goes.
    return {
        kind: (found.get(f"{what}_objects", 0), found.get(f"{what}_bytes", 0) if kind != "snapshots" else 0)
        for kind, found in report["kinds"].items()
    }


def test_what_the_report_says_is_what_goes_after_the_expiration(repo: tuple[Path, Expiration]) -> None:
    folder, planned = repo
    before, history = objects(folder), read_history(open_reader(f"file://{folder}")).digest
    report = collect(config(folder, after=planned))
    assert objects(folder) == before
    assert read_history(open_reader(f"file://{folder}")).digest == history
    assert report["outcome"] == "dry_run"
    assert report["headline"].startswith("After the planned expiration, ")
    assert report["candidates"]["objects"] > 20
    expired = expire(f"file://{folder}", instant_of(planned), delete_expired_tags=True)
    (mark,) = (step for step in report["steps"] if step["step"] == "mark")
    assert mark["counts"]["planned_released_snapshots"] == len(expired.plan.before.snapshots) - len(
        expired.plan.after.snapshots
    )
    done = collect(config(folder, dry_run=False))
    assert figures(done, "deleted") == figures(report, "candidates")
    assert figures(done, "young") == figures(report, "young")


def instant_of(planned: Expiration) -> Any:
    return datetime.fromisoformat(planned.threshold)


def test_preview_leaves_no_list_because_what_it_found_is_still_reachable(
    repo: tuple[Path, Expiration],
) -> None:
    folder, planned = repo
    report = collect(config(folder, after=planned, unsafe_grace_seconds=None))
    assert report["candidates"] == collect(config(folder, after=planned))["candidates"], "nor does it count"
    assert not (folder / "_dredge" / "pending" / "current.json").exists()
    assert report["warnings"]


def test_run_that_deletes_takes_no_expiration_for_applied(repo: tuple[Path, Expiration]) -> None:
    with pytest.raises(ConfigError, match="after"):
        config(repo[0], after=repo[1], dry_run=False)
    assert from_json(CollectConfig, to_json(config(repo[0], after=repo[1]))) == config(repo[0], after=repo[1])
