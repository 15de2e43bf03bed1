"""Each guard of a collection stands by itself: without it, exactly its test fails."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection import canaries, guards, listing, marking, recheck, sets, sweeping
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.plan import Context, plan_collection
from dredge.icechunk.collection.recheck import look_again
from dredge.icechunk.collection.steps import collect, release_lease
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.repo_info import written_at
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.ids import decode_id
from dredge.icechunk.maintenance import make_lease
from dredge.icechunk.repository import read_history
from dredge.runs import ledger
from dredge.runs.gate import write_look
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.storage import LISTING_SCHEMA, open_reader
from tests.support.icechunk import build, graph_of, local_storage, objects, quiet, scenarios

SAMPLE = scenarios()[0]
HERE = LocalRunner()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "repo"
    ids = build(local_storage(folder), graph_of(SAMPLE), 1)
    times = read_history(open_reader(f"file://{folder}")).snapshots
    expire(f"file://{folder}", instant((times[ids["7"]].flushed_at + times[ids["8"]].flushed_at) // 2))
    return folder


@pytest.fixture
def repo(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "repo")
    return tmp_path / "repo"


def config(folder: Path, **changes: Any) -> CollectConfig:
    settings = {"dry_run": False, "unsafe_min_age_seconds": 0, "grace_hours": 0} | changes
    return CollectConfig(uri=f"file://{folder}", **settings)


def listed(folder: Path, **changes: Any) -> Context:
    context = Context.open(plan_collection(config(folder, **changes)).run_uri)
    marking.mark(context, HERE)
    listing.find_candidates(context, HERE)
    return context


@pytest.mark.parametrize("name", ["README.txt", "0" * 19 + "1", "o" * 20, "deeper/" + "0" * 20, ""])
def test_candidate_that_is_no_id_is_never_swept(repo: Path, name: str) -> None:
    context = listed(repo)
    (repo / "chunks" / "deeper").mkdir()
    row = [f"chunks/{name}", 0, datetime(2020, 1, 1, tzinfo=UTC), None]
    columns = dict(zip(LISTING_SCHEMA.names, ([one] for one in row), strict=True))
    part = listing.write_candidates(
        context.folder, "chunks-9999", [pa.table(columns, schema=LISTING_SCHEMA)], 10
    )[0]
    alive = sets.write_ids(context.folder, "ledger/_alive/none.ids", sets.NONE)
    write_look(context.folder, "ledger/_watch/001.json", True, "")
    settings = {
        "uri": context.plan.uri,
        "state_uri": context.state.uri,
        "run_uri": context.folder.uri,
        "run_id": context.plan.run_id,
        "try": StepTry.newest(context.folder.writer, "ledger").to_json(),
        "progress": "x",
        "lease": context.plan.lease.to_json(),
        "gate": {
            "lease": context.plan.lease.to_json(),
            "watch": "ledger/_watch/001.json",
            "trusted_seconds": 0,
            "silence_seconds_max": 60,
        },
        "attempt": 1,
        "delete_keys": 10,
        "alive": {"chunks": alive.to_json()},
    }
    sweeping.delete_parts(settings, {"name": "chunks-0000", "kind": "chunks", "parts": [part.to_json()]})
    stem = part.name.rpartition("/")[2].removesuffix(".parquet")
    rows = ledger.best(ledger.read_raw(context.folder, stem))
    assert rows["outcome"].to_pylist() == [ledger.KEPT]


def test_lease_that_is_lost_while_the_guards_are_asked_is_a_refusal(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = listed(repo)
    real = canaries.sample

    def overtaken(context: Context) -> list[str]:
        release_lease(context)
        make_lease(context.state, 60).acquire("somebody else")
        return real(context)

    monkeypatch.setattr(canaries, "sample", overtaken)
    with pytest.raises(RefusedError, match="lease_held"):
        guards.check_limits(context)
    assert context.folder.read_json(guards.GUARD)["verdict"] == "refused"


@pytest.mark.parametrize("verdict", ["awaiting_approval", "refused"])
def test_sweep_deletes_nothing_when_the_guards_did_not_pass(repo: Path, verdict: str) -> None:
    context = listed(repo)
    summary = guards.check_limits(context)
    # A summary that looks complete, as the one of a dry run does whose guards would stop a run.
    context.folder.write_summary(replace(summary, details={**summary.details, "verdict": verdict}))
    before = objects(repo)
    with pytest.raises(RefusedError, match="the guards did not pass"):
        sweeping.sweep(context, HERE)
    assert objects(repo) == before


def test_ref_on_a_snapshot_that_vanished_counts_as_risen(repo: Path) -> None:
    reader = open_reader(f"file://{repo}")
    known = set(read_history(reader).snapshots)
    library = quiet().Repository.open(local_storage(repo))
    library.create_branch("new", library.lookup_branch("main"))
    tip = library.writable_session("new").commit("new", allow_empty=True)
    assert look_again(reader, 1, known, set()).new == {tip}
    (repo / "snapshots" / tip).unlink()
    since = look_again(reader, 1, known, set())
    assert since.risen is not None
    assert f"branch new, which reaches {tip}, and that is gone" in since.risen


def old_repo_infos(folder: Path, count: int) -> Any:
    icechunk = quiet()
    settings = icechunk.RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 5
    library = icechunk.Repository.create(local_storage(folder), config=settings, spec_version=2)
    for number in range(count):
        library.writable_session("main").commit(str(number), allow_empty=True)
    return library


def age(folder: Path, hours: float) -> None:
    """Let copies look as if they had been written so long ago: name and time of the file."""
    for path in list((folder / "overwritten").iterdir()):
        made = written_at(path.name)
        assert made is not None
        then = time.time() - hours * 3600
        os.utime(path, (then, then))


def test_old_repo_infos_have_an_age_limit_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dredge.icechunk.collection import overwritten

    old_repo_infos(tmp_path, 30)
    age(tmp_path, 30)
    monkeypatch.setattr(overwritten, "written_at", lambda name: datetime.now(UTC) - timedelta(hours=30))

    def candidates(**ages: float) -> int:
        context = listed(tmp_path, **ages)
        release_lease(context)
        summary = context.folder.read_summary(listing.STEP)
        assert summary is not None
        return summary.counts["overwritten_candidates_objects"]

    day, older, never = {"unsafe_min_age_seconds": 86_400}, 31, 24 * 365
    assert candidates(**day, overwritten_min_age_hours=24) > 15
    assert candidates(**day, overwritten_min_age_hours=older) == 0  # their own limit is the longer one
    assert candidates(unsafe_min_age_seconds=0, overwritten_min_age_hours=never) == 0
    assert candidates(unsafe_min_age_seconds=older * 3600, overwritten_min_age_hours=0) == 0  # the run's is


def test_copy_that_the_log_came_to_need_after_the_listing_is_kept(tmp_path: Path) -> None:
    library = old_repo_infos(tmp_path, 30)
    context = listed(tmp_path, overwritten_min_age_hours=0)
    summary = guards.check_limits(context)
    assert summary.counts["deletable_objects"] > 15
    candidates = set()
    parts = listing.candidate_parts(context.folder.read_summary(listing.STEP), "overwritten")  # type: ignore[arg-type]
    for table in context.folder.read_parts(parts, ["address"]):
        candidates |= {key.removeprefix("overwritten/") for key in table["address"].to_pylist()}
    for number in range(2):
        library.writable_session("main").commit(f"meanwhile {number}", allow_empty=True)
    needed = recheck_needed(tmp_path) & candidates
    assert needed
    sweeping.sweep(context, HERE)
    left = {path.name for path in (tmp_path / "overwritten").iterdir()}
    assert needed <= left
    assert len(candidates - left) > 10


def recheck_needed(folder: Path) -> set[str]:
    from dredge.icechunk.collection.overwritten import needed_copies
    from dredge.icechunk.repository import read_repo_info

    reader = open_reader(f"file://{folder}")
    return needed_copies(reader, read_repo_info(reader))


def test_set_of_what_came_to_life_is_asked_at_the_sweep(repo: Path) -> None:
    # Without a minimum age the open writer's chunk is a candidate; its commit comes before the sweep.
    import zarr

    session = quiet().Repository.open(local_storage(repo)).writable_session("main")
    zarr.open_array(session.store, path="numbers")[0] = 4711
    context = listed(repo)
    guards.check_limits(context)
    tip = session.commit("late")
    since = look_again(
        open_reader(f"file://{repo}"), 1, marking.known_snapshots(context, summary_of(context)), set()
    )
    fresh = recheck.newly_live(open_reader(f"file://{repo}"), since)
    assert since.new == {tip}
    sweeping.sweep(context, HERE)
    there = {int.from_bytes(decode_id(name)[:8], "big") for name in objects(repo)["chunks"]}
    assert set(fresh["chunks"].tolist()) <= there


def summary_of(context: Context) -> Any:
    return context.folder.read_summary(marking.STEP)


def test_collection_of_these_repositories_deletes_without_the_damage(repo: Path) -> None:
    assert collect(config(repo))["deleted"]["objects"] == 20
