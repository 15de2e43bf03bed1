"""What a complete collection removes of Dredge's own files, and everything that it must leave alone."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection import planning
from dredge.icechunk.collection.index import ManifestIndex
from dredge.icechunk.collection.outputs import OwnFilesOutput
from dredge.icechunk.collection.own_files import is_own_file, own_files_deleter
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import StateStore
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.maintenance import open_state
from dredge.icechunk.repository import read_history
from dredge.runs.clock import utc_now
from dredge.storage import open_reader
from dredge.xid import new_descending_xid
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo, change_number

DAY = 86400
SMALL = {"index_parts_max": 3, "counted_layers_max": 2}


def change(repo: Repo, value: int) -> None:
    session = repo.library.writable_session("main")
    change_number(session, value)
    tip = session.commit(f"number {value}")
    flushed = read_history(open_reader(repo.uri)).snapshots[tip].flushed_at
    expire(repo.uri, instant(flushed), delete_expired_branches=True, delete_expired_tags=True)


def age(repo: Repo, days: float) -> None:
    for path in (repo.folder / "_dredge").rglob("*"):
        if path.is_file() and path.name != "lease.json":
            then = path.stat().st_mtime - days * DAY
            os.utime(path, (then, then))


def own(repo: Repo, place: str) -> set[str]:
    folder = repo.folder / "_dredge" / place
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def run(repo: Repo, mode: str = "auto", **changes: Any) -> dict[str, Any]:
    from dredge.icechunk.collection.config import Tuning

    return collect(repo.config(mode=mode, tuning=Tuning(**SMALL), **changes))


def counts_of_cleaning(repo: Repo, report: dict[str, Any]) -> dict[str, int]:
    folder = Run.open(f"{repo.uri}/_dredge/runs/{report['run_id']}").folder
    found = folder.read_summary(OwnFilesOutput.STEP)
    assert found is not None
    return dict(found.counts)


def test_own_files_stop_growing_and_optimized_runs_go_on(v1: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    ago = count(60, -1)  # ids of runs of one second have no order
    monkeypatch.setattr(
        planning, "new_descending_xid", lambda now: new_descending_xid(now - timedelta(seconds=next(ago)))
    )
    sizes = []
    for number in range(9):
        change(v1, number)
        assert run(v1)["mode"] == ("clean" if number == 0 else "optimized")
        sizes.append({place: len(own(v1, place)) for place in ("counted", "state", "index")})
        age(v1, 4)
    # With nothing removed 25, 10 and 36 files.
    for place, most in {"counted": 7, "state": 4, "index": 18}.items():
        assert max(size[place] for size in sizes[3:]) <= most, place
    change(v1, 99)
    assert run(v1)["mode"] == "optimized"
    assert contents(v1.library, branch="main")[0] == 99
    assert run(v1, mode="clean")["deleted"]["objects"] == 0, "the optimized runs found all"


def test_whatever_a_version_of_the_last_week_names_stays(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    for number in range(5):
        change(v1, number + 2)
        run(v1)
        age(v1, 3)
    store = StateStore(open_state(v1.uri))
    versions = own(v1, "state/versions")
    assert len(versions) == 4, "three of the last week and the one that was the newest when it began"
    for name in versions:
        state = store.read(f"state/versions/{name}", None)
        assert {part.name for part in state.counted.parts} <= {f"counted/{key}" for key in own(v1, "counted")}
        assert Path(state.run_uri.removeprefix("file://")).is_dir()


def test_index_answers_the_same_after_a_compaction_and_what_it_superseded_waits_a_week(v1: Repo) -> None:
    before: set[str] = set()
    for number in range(4):
        change(v1, number)
        before = own(v1, "index")
        age(v1, 8)
        run(v1)
    heads = own(v1, "index/heads")
    compacted = [name for name in heads if "compacted" in name]
    assert compacted
    assert before <= own(v1, "index"), "a run that loaded the index before may still read it"
    index = ManifestIndex.load(open_state(v1.uri))
    assert index.heads[0].rpartition("/")[2] in compacted  # ids of one second have no order
    state = StateStore(open_state(v1.uri)).current(v1.uri, 1).state
    assert state is not None
    live = {part for ids in index.manifests_of.values() for part in ids}
    assert live == {path.name for path in (v1.folder / "manifests").iterdir()}
    age(v1, 8)
    run(v1)
    left = own(v1, "index")
    assert not before & left
    assert run(v1, mode="clean")["mode"] == "clean"


def test_damaged_head_of_the_index_keeps_every_part(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    state = open_state(v1.uri)
    state.put("index/parts/of-nobody-knows.ids", b"named by the damaged head")
    state.put("index/heads/x-1-0000.json", b"{}")
    age(v1, 30)
    change(v1, 2)
    run(v1)
    assert "parts/of-nobody-knows.ids" in own(v1, "index")


def test_only_old_folders_of_own_runs_go_and_none_with_copies(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(v1, 1)
    first = run(v1, undo="quarantine")
    runs = v1.folder / "_dredge" / "runs"
    old = new_descending_xid(utc_now() - timedelta(days=200))
    strange, copies, plain = (
        new_descending_xid(utc_now() - timedelta(days=days)) for days in (201, 202, 203)
    )
    for name in (old, strange, copies, plain):
        (runs / name).mkdir()
        plan = (runs / first["run_id"] / "plan.json").read_text().replace(first["run_id"], name)
        if name == strange:
            plan = plan.replace(v1.uri, "s3://another/repo")
        (runs / name / "plan.json").write_text(plan)
        (runs / name / "mark").mkdir()
        (runs / name / "mark" / "rows").write_text("rows")
    (runs / copies / "quarantine" / "chunks").mkdir(parents=True)
    (runs / copies / "quarantine" / "chunks" / "A").write_text("a copy")
    (runs / "notes").mkdir()
    (runs / "notes" / "readme").write_text("a person's")
    age(v1, 100)
    now = time.time()
    os.utime(runs / plain / "mark" / "rows", (now, now))
    change(v1, 2)
    second = run(v1)
    left = {path.name for path in runs.iterdir() if any(path.rglob("*"))}
    assert left >= {strange, copies, plain, "notes", first["run_id"], second["run_id"]}
    assert not (runs / old / "plan.json").exists()
    assert counts_of_cleaning(v1, second)["own_folders"] == 1


def test_no_own_file_goes_when_they_are_to_be_kept_or_by_a_dry_run(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    for number in range(3):
        change(v1, number + 2)
        before = {key for key in own(v1, "") if not key.startswith(("lease", "state/current"))}
        run(v1, keep_runs_days=None)
        run(v1, dry_run=True)
        assert before <= own(v1, "")
        age(v1, 100)


def test_cleaning_never_touches_the_repository(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    age(v1, 100)
    before = objects(v1.folder)
    report = run(v1)
    assert report["deleted"]["objects"] == 0
    assert objects(v1.folder) == before
    assert contents(v1.library, branch="main")[0] == 1


@pytest.mark.parametrize(
    "key",
    [
        "lease.json",
        "pending/current.json",
        "state/current.json",
        "counted/../lease.json",
        "../chunks/00000000000000000000",
        "chunks/00000000000000000000",
        "runs/notes/readme",
        "index/parts/a/b",
    ],
)
def test_deleter_of_own_files_knows_no_other_names(v1: Repo, key: str) -> None:
    assert not is_own_file(key)
    with pytest.raises(RefusedError, match="report this"):
        own_files_deleter(v1.uri).delete(["counted/a", key])
