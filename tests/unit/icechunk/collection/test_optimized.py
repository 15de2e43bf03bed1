"""Optimized runs."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import DefectError, FormatError, RefusedError
from dredge.icechunk.collection.run import Run, RunState, StateStore, open_base
from dredge.icechunk.collection.steps import (
    bulk_delete,
    check_limits,
    collect,
    list_candidates,
    mark,
    plan_collection,
    release_lease,
    run_steps,
    save_report,
)
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.maintenance import open_state
from dredge.runs.payload import from_json, to_json
from dredge.runs.tasks import LocalRunner
from dredge.runs.versions import POINTER
from tests.support.folder_store import LocalReader, dying_while_deleting
from tests.support.icechunk import contents, objects, quiet
from tests.support.icechunk_repo import (
    Repo,
    change_number,
    commit,
    expire_before,
    flip_chunk_id,
    grown,
    main_manifest,
    optimized,
)

HERE = LocalRunner()


def state_of(repo: Repo) -> RunState:
    found = StateStore(open_state(repo.uri)).current(repo.uri, repo.spec).state
    assert found is not None
    return found


@pytest.fixture
def listed(stand_in: Any) -> list[str]:
    prefixes: list[str] = []

    def noted(honest: Any, store: LocalReader, prefix: str = "", *rest: Any, **more: Any) -> Any:
        prefixes.append(prefix)
        return honest(store, prefix, *rest, **more)

    stand_in(LocalReader.list, noted)
    return prefixes


def test_optimized_run_lists_no_chunks_and_leaves_what_a_clean_one_leaves(
    repo: Repo, listed: list[str], tmp_path: Path
) -> None:
    grown(repo)
    left = repo.collected(tmp_path)
    listed.clear()
    report = collect(repo.config(mode="auto"))
    assert report["mode"] == "optimized"
    assert "chunks/" not in listed
    assert objects(repo.folder) == left
    assert report["deleted"]["objects"] > 10
    assert contents(repo.library, branch="main")[0] == 101
    assert state_of(repo).optimized_runs == 1


def test_chunk_that_a_live_manifest_names_stays_when_a_dead_one_names_it_too(v1: Repo) -> None:
    grown(v1)
    before = contents(v1.library, branch="main")
    run = optimized(v1)
    mark(run, HERE)
    found = list_candidates(run, HERE).counts
    assert found["chunks_listed_objects"] > found["chunks_candidates_objects"] > 0
    release_lease(run)
    collect(v1.config(mode="auto"))
    assert contents(v1.library, branch="main") == before


def test_what_no_manifest_names_is_left_to_a_clean_run_which_says_so(v1: Repo) -> None:
    grown(v1)
    session = v1.library.writable_session("main")
    change_number(session, 4711)
    del session
    lost = "0" * 20
    (v1.folder / "chunks" / lost).write_bytes(b"never committed")
    report = collect(v1.config(mode="auto"))
    assert lost in objects(v1.folder)["chunks"]
    facts = dict(report["facts"])
    assert state_of(v1).clean_run_id in facts["Not searched"]
    clean = collect(v1.config())
    assert lost not in objects(v1.folder)["chunks"]
    assert clean["drift"]["objects"] >= 1
    assert f"chunks/{lost}" in clean["drift"]["samples"]
    assert clean["drift"]["samples"][0] in dict(clean["facts"])["Missed by optimized runs"]


def test_what_optimized_runs_would_have_found_is_no_drift(v2: Repo) -> None:
    grown(v2)
    drift = collect(v2.config())["drift"]
    assert drift["objects"] == 0


@pytest.mark.parametrize("damage", ["pointer", "rows", "counts", "another", "distrusted"])
def test_damaged_state_means_a_clean_run_that_says_why(
    v1: Repo, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    grown(v1)
    state, store = open_state(v1.uri), StateStore(open_state(v1.uri))
    found, version = state_of(v1), store.newest()
    assert version is not None
    if damage == "pointer":
        state.put(POINTER, b"{}")
    elif damage == "rows":
        open_base(version, state, None).folder.writer.put(found.snapshots.key, b"nothing")
    elif damage == "counts":
        part = found.counted.parts[0]
        data = bytearray(state.get(part.name))
        data[-1] ^= 1
        state.put(part.name, bytes(data))
    elif damage == "another":
        other = from_json(RunState, to_json(found) | {"uri": "file:///elsewhere"})
        store.advance(other, store.current(v1.uri, 1))
    else:
        store.distrust(version, "seen")
    run = Run.open(plan_collection(v1.config(mode="optimized")).run_uri)
    assert (run.plan.mode, run.plan.state) == ("clean", None)
    assert "unusable" in run.plan.why_mode
    assert [record.levelname for record in caplog.records if record.levelname == "ERROR"]


def test_counts_that_break_in_the_middle_stop_the_run_and_the_next_is_clean(v1: Repo) -> None:
    grown(v1)
    before = objects(v1.folder)
    run = optimized(v1)
    for part in state_of(v1).counted.parts:
        run.state.put(part.name, b"x" * part.size_bytes)
    with pytest.raises(FormatError):
        run_steps(run, HERE)
    save_report(run)
    release_lease(run)
    assert objects(v1.folder) == before
    assert v1.plan(mode="optimized").plan.mode == "clean"


def test_upgraded_repository_begins_with_a_clean_run(v1: Repo) -> None:
    grown(v1)
    quiet().upgrade_icechunk_repository(v1.library, dry_run=False, delete_unused_v1_files=True)
    run = v1.plan(mode="optimized")
    assert run.plan.mode == "clean"
    assert "spec_version" in run.plan.why_mode


def test_run_after_one_that_kept_all_chunks_is_a_clean_one(v2: Repo, tmp_path: Path) -> None:
    grown(v2)
    left, before = v2.collected(tmp_path), objects(v2.folder)
    collect(v2.config(mode="auto", keep_chunks=True))
    assert objects(v2.folder)["chunks"] == before["chunks"]
    assert objects(v2.folder)["manifests"] < before["manifests"]
    report = collect(v2.config(mode="optimized"))
    assert report["mode"] == "clean"
    assert objects(v2.folder) == left


@pytest.mark.parametrize("spec_and_left", [(1, 1), (2, 100)])
def test_chunks_that_a_killed_sweep_left_are_found_by_the_next_run(
    both: dict[int, Repo],
    request: pytest.FixtureRequest,
    spec_and_left: tuple[int, int],
    tmp_path: Path,
) -> None:
    spec, chunks_left = spec_and_left
    repo = grown(request.getfixturevalue(f"v{spec}"))
    left = repo.collected(tmp_path)
    run = optimized(repo)
    mark(run, HERE)
    counts = list_candidates(run, HERE).counts
    check_limits(run)
    # All metadata goes, and chunks but for some: nothing in the store names these any more.
    metadata = sum(
        counts[f"{kind}_candidates_objects"] for kind in ("snapshots", "transactions", "manifests")
    )
    chunks = max(0, counts["chunks_candidates_objects"] - chunks_left)
    with dying_while_deleting(metadata + chunks), pytest.raises(DefectError):
        bulk_delete(run, HERE)
    release_lease(run)
    assert objects(repo.folder)["manifests"] == left["manifests"]
    assert objects(repo.folder)["chunks"] != left["chunks"]
    assert collect(repo.config(mode="optimized"))["mode"] == "clean"
    assert objects(repo.folder) == left
    assert repo.plan(mode="optimized").plan.mode == "optimized"


def test_flipped_chunk_id_in_a_new_manifest_holds_an_optimized_run(v2: Repo) -> None:
    collect(v2.config())
    commit(v2, 100)
    expire_before(v2, commit(v2, 101))
    chunk = flip_chunk_id(v2.folder, random.Random(2))
    before = objects(v2.folder)
    with pytest.raises(RefusedError, match="chunks/"):
        collect(v2.config(mode="optimized"))
    assert objects(v2.folder) == before
    assert chunk in before["chunks"]


def test_index_that_learned_from_a_damaged_read_stops_an_optimized_run(v1: Repo) -> None:
    grown(v1)
    path = main_manifest(v1.folder)
    sound = path.read_bytes()
    flip_chunk_id(v1.folder, random.Random(3))
    collect(v1.config(mode="auto", dry_run=True))
    path.write_bytes(sound)
    before = objects(v1.folder)
    with pytest.raises(FormatError, match="/_dredge/index"):
        collect(v1.config(mode="optimized"))
    assert objects(v1.folder) == before


def test_snapshot_file_that_was_put_back_is_read_again(v1: Repo) -> None:
    commit(v1, 100)
    tip = commit(v1, 101)
    place = v1.folder / "snapshots" / tip
    sound, known = place.read_bytes(), place.stat()
    expire_before(v1, tip)
    collect(v1.config(unsafe_grace_seconds=None))  # what was released waits
    place.write_bytes(sound)
    os.utime(place, ns=(known.st_atime_ns, known.st_mtime_ns))
    before = objects(v1.folder)
    report = collect(v1.config(mode="auto"))
    assert report["mode"] == "optimized"
    parent = parse_snapshot(sound, tip).parent_id
    assert parent in objects(v1.folder)["snapshots"]
    assert objects(v1.folder)["manifests"] >= {
        info.id for info in parse_snapshot((v1.folder / "snapshots" / str(parent)).read_bytes(), "").manifests
    }
    assert before["snapshots"] >= objects(v1.folder)["snapshots"]
    assert len(list(v1.library.ancestry(branch="main"))) > 2


def test_many_layers_of_counts_become_one(v2: Repo, tmp_path: Path) -> None:
    collect(v2.config())
    settings = v2.config().tuning
    for number in range(4):
        expire_before(v2, commit(v2, 200 + number))
        tuning = type(settings)(counted_layers_max=2, ids_per_shard=4)
        collect(v2.config(mode="auto", tuning=tuning))
    assert len(state_of(v2).counted.layers) <= 2
    assert objects(v2.folder) == v2.collected(tmp_path)


def test_dropped_manifest_that_the_index_lost_is_not_taken_away(v1: Repo) -> None:
    grown(v1)
    before = contents(v1.library, branch="main")
    for path in (v1.folder / "_dredge" / "index" / "heads").glob("*"):
        path.unlink()
    report = collect(v1.config(mode="auto"))
    assert report["mode"] == "optimized"
    assert report["warnings"]
    assert contents(v1.library, branch="main") == before
    collect(v1.config())
    assert contents(v1.library, branch="main") == before
