"""On the scenarios and on random repositories a collection deletes exactly what the library deletes.

With one difference on spec 2, on purpose: snapshots that no ref reaches but that the repo info lists stay, with
all they use, until an expiration drops them. `DREDGE_CASES` sets the number of random cases a spec.
"""

import os
import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.format.metadata import instant, parse_snapshot
from dredge.icechunk.history import History
from dredge.icechunk.ids import encode_ids
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.depth import depth
from tests.support.icechunk import (
    build,
    contents,
    graph_of,
    local_storage,
    objects,
    quiet,
    random_graph,
    scenarios,
)
from tests.support.icechunk_expiring import expire

SEEDS = range(depth(6, 60, "DREDGE_CASES"))


def threshold_at(history: History, ids: dict[str, str], time: float) -> datetime:
    known = {
        float(name): history.snapshots[node].flushed_at
        for name, node in ids.items()
        if node in history.snapshots
    }
    if time in known:
        return instant(known[time])
    before = [micros for at, micros in known.items() if at < time]
    after = [micros for at, micros in known.items() if at > time]
    if not before:
        return instant(min(after) - 1_000_000)
    return instant((max(before) + min(after)) // 2) if after else instant(max(before) + 1_000_000)


def used_by(folder: Path, snapshots: set[str]) -> dict[str, set[str]]:
    """Give all objects that some snapshots need, read without the mark's fast loop."""
    manifests = {
        info.id
        for snapshot in snapshots
        for info in parse_snapshot((folder / "snapshots" / snapshot).read_bytes(), snapshot).manifests
    }
    chunks = {
        name
        for manifest in manifests
        for array in parse_manifest((folder / "manifests" / manifest).read_bytes(), manifest).arrays
        for name in encode_ids(array.ids[array.kind == 0]).to_pylist()
    }
    return {"snapshots": snapshots, "transactions": snapshots, "manifests": manifests, "chunks": chunks}


def refs_of(library: Any) -> dict[str, list[int]]:
    found = {f"branch {name}": contents(library, branch=name) for name in library.list_branches()}
    return found | {f"tag {name}": contents(library, tag=name) for name in library.list_tags()}


def compare(folder: Path, theirs: Path) -> None:
    """Collect one copy with Dredge and one with the library, and compare file by file."""
    for path in folder.rglob("*"):
        # What was written in the first microsecond of a second looks rounded, and counts as a second younger.
        if path.is_file() and (written := path.stat().st_mtime_ns) // 1000 % 1_000_000 == 0:
            os.utime(path, ns=(written, written + 1000))
    shutil.copytree(folder, theirs)
    history = read_history(open_reader(f"file://{folder}"))
    dangling = set(history.snapshots) - history.reachable()
    before = refs_of(quiet().Repository.open(local_storage(folder)))
    spare = {kind: names & objects(folder)[kind] for kind, names in used_by(folder, dangling).items()}
    spare["transactions"] |= {log for node in dangling for log in history.snapshots[node].pruned}
    cutoff = datetime.now(UTC) + timedelta(seconds=5)
    library = quiet().Repository.open(local_storage(theirs))
    dry = library.garbage_collect(cutoff, dry_run=True)
    library.garbage_collect(cutoff)
    report = collect(
        CollectConfig(
            uri=f"file://{folder}",
            dry_run=False,
            unsafe_min_age_seconds=0,
            unsafe_grace_seconds=0,
            max_delete_percent=None,
            keep_lost_days=0,  # the library keeps no lost snapshots
        )
    )
    assert report["outcome"] == "success"
    ours, left = objects(folder), objects(theirs)
    for kind in ours:
        assert ours[kind] >= left[kind], kind
        assert ours[kind] - left[kind] <= spare[kind], kind
        assert kind == "transactions" or ours[kind] >= spare[kind], kind
    if not dangling:
        assert ours == left
        figures = [
            report["kinds"][kind]["candidates_objects"] for kind in ("snapshots", "manifests", "chunks")
        ]
        assert figures == [dry.snapshots_deleted, dry.manifests_deleted, dry.chunks_deleted]
        assert report["deleted"]["objects"] == sum(
            report["kinds"][kind]["candidates_objects"] for kind in report["kinds"]
        )
    assert refs_of(quiet().Repository.open(local_storage(folder))) == before


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["id"])
def test_scenarios_are_collected_as_the_library_does(
    scenario: dict[str, Any], spec: int, tmp_path: Path
) -> None:
    folder = tmp_path / "ours"
    ids = build(local_storage(folder), graph_of(scenario), spec)
    history = read_history(open_reader(f"file://{folder}"))
    thresholds = [threshold_at(history, ids, step["threshold"]) for step in scenario["steps"]]
    for step, threshold in zip(scenario["steps"], thresholds, strict=True):
        expire(
            f"file://{folder}",
            threshold,
            delete_expired_branches=step["delete_expired_branches"],
            delete_expired_tags=step["delete_expired_tags"],
        )
    on_disk = scenario["observed"][f"spec{spec}"]["snapshots_on_disk_after_gc"]
    compare(folder, tmp_path / "theirs")
    left = {ids[name] for name in on_disk}
    after = read_history(open_reader(f"file://{folder}"))
    assert objects(folder)["snapshots"] == left | (set(after.snapshots) - after.reachable())


@pytest.mark.hunt
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_repositories_are_collected_as_the_library_does(seed: int, spec: int, tmp_path: Path) -> None:
    rng = random.Random(seed * 2 + spec)
    folder = tmp_path / "ours"
    ids = build(local_storage(folder), random_graph(rng, 8), spec)
    library = quiet().Repository.open(local_storage(folder))
    if rng.random() < 0.5:
        times = [
            entry.flushed_at for entry in read_history(open_reader(f"file://{folder}")).snapshots.values()
        ]
        expire(
            f"file://{folder}",
            instant(rng.choice(times) + rng.choice([0, 1])),
            delete_expired_branches=rng.random() < 0.5,
            delete_expired_tags=rng.random() < 0.5,
        )
    if rng.random() < 0.3:
        library = quiet().Repository.open(local_storage(folder))
        library.create_branch("more", library.lookup_branch("main"))
        session = library.writable_session("more")
        session.commit("late", allow_empty=True)
        if spec == 2 and rng.random() < 0.5:
            library.writable_session("more").amend("later", allow_empty=True)
    if rng.random() < 0.3:
        (folder / "chunks").mkdir(exist_ok=True)
        (folder / "chunks" / ("0" * 20)).write_bytes(b"orphan")
    assert ids
    compare(folder, tmp_path / "theirs")
