"""The record of a mark, and the witnesses of spec 2."""

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from dredge.errors import ConflictError, FormatError, RefusedError, WitnessError
from dredge.icechunk.collection.steps import (
    Run,
    bulk_delete,
    check_limits,
    find_garbage,
    plan_collection,
    release_lease,
)
from dredge.icechunk.collection.witness.judging import forget_lost
from dredge.icechunk.collection.witness.record import (
    KNOWN,
    Known,
    LostTip,
    next_parents,
    note_released,
    read_known,
)
from dredge.runs.parts import parquet_bytes
from dredge.runs.tasks import LocalRunner
from dredge.storage import ObjectWriter, open_writer, store_clock
from tests.support.icechunk import Graph, history_of, quiet
from tests.support.icechunk_past import Past
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_waiting import let_wait
from tests.support.memory_store import forget_memory_store

AT = datetime(2026, 5, 1, tzinfo=UTC)
KNOWN_ALL = Known(
    run_id="r",
    at=AT,
    tips={"branch:main": "B"},
    lost={"C": LostTip("tag:t", AT)},
    parents={"B": frozenset("A"), "A": frozenset()},
    released=frozenset("D"),
    operation=("commit", 5),
    migrated_at=3,
    root=("A", 1),
)


@pytest.fixture
def state() -> ObjectWriter:
    forget_memory_store("known-test")
    return open_writer("memory://known-test/repo/_dredge")


def test_what_is_left_is_read_as_it_was_written(state: ObjectWriter) -> None:
    assert read_known(state) == (Known(), None)
    for known in (Known(), KNOWN_ALL):
        state.put(KNOWN, known.dumps())
        assert read_known(state) == (known, state.stat(KNOWN).etag)


def test_release_is_added_to_what_is_known(state: ObjectWriter) -> None:
    note_released(state, ())
    assert read_known(state) == (Known(), None)
    note_released(state, {"X"})
    note_released(state, {"Y"})
    assert replace(read_known(state)[0], written_at=None) == Known(released=frozenset("XY"))


@pytest.mark.parametrize(("minutes", "is_copied_back"), [(0, False), (59, False), (61, True)])
def test_record_that_the_store_has_written_an_hour_after_the_time_in_it_was_copied_back(
    state: ObjectWriter, minutes: float, is_copied_back: bool
) -> None:
    known = replace(KNOWN_ALL, written_at=store_clock(state, "") - timedelta(minutes=minutes))
    state.put(KNOWN, known.dumps())
    at = state.stat(KNOWN).last_modified
    copied = Known(run_id="r", at=AT, written_at=known.written_at, copied_back_at=at)
    assert read_known(state)[0] == (copied if is_copied_back else known)


def test_expiration_leaves_a_record_that_was_copied_back_as_it_is(state: ObjectWriter) -> None:
    state.put(KNOWN, replace(KNOWN_ALL, written_at=AT).dumps())
    before = read_known(state)[0].copied_back_at
    assert before is not None
    note_released(state, {"X"})
    note_released(state, {"Y"})
    assert read_known(state)[0].copied_back_at == before


def test_record_of_a_newer_version_stops_the_run(state: ObjectWriter) -> None:
    table = pq.read_table(BytesIO(KNOWN_ALL.dumps()))
    meta = json.loads(table.schema.metadata[b"dredge"]) | {"format": 2}
    state.put(KNOWN, parquet_bytes(table.replace_schema_metadata({b"dredge": json.dumps(meta).encode()})))
    with pytest.raises(FormatError):
        read_known(state)


@pytest.mark.parametrize("keep", [0, 10, -8])
def test_damaged_record_is_as_none_and_what_is_released_waits_anew(tmp_path: Path, keep: int) -> None:
    past = Past(tmp_path / "repo", 1)
    past.commit()
    past.library.create_branch("job", past.tip())
    tip = past.commit("job")
    past.library.delete_branch("job")
    past.pass_days(40)
    past.collect(unsafe_grace_seconds=None)
    let_wait(past.folder, 99)
    path = past.folder / "_dredge" / KNOWN
    path.write_bytes(path.read_bytes()[:keep])
    assert past.collect(unsafe_grace_seconds=None)["deleted"]["objects"] == 0
    assert tip in past.objects()["snapshots"]
    assert past.known().tips == {"branch:main": past.tip()}


def test_record_that_another_run_has_left_since_the_mark_is_not_replaced(v1: Repo) -> None:
    run = v1.listed()
    run.state.put(KNOWN, Known(released=frozenset("X")).dumps())
    with pytest.raises(ConflictError):
        check_limits(run)
    assert read_known(run.state)[0].released == frozenset("X")


def test_ancestors_of_what_is_reached_are_known_through_files_that_are_gone() -> None:
    now = history_of(Graph((("4", "0", 4.0),), {"main": "4"}), 1)
    known = {"4": frozenset("3"), "3": frozenset("2"), "2": frozenset("1"), "1": frozenset("0")}
    found = next_parents(known, now, {"0", "4", "1"})
    assert found == {"0": frozenset(), "4": frozenset("01"), "1": frozenset()}


def test_snapshot_that_is_reached_again_was_released_by_none_of_its_earlier_children() -> None:
    graph = Graph((("1", "0", 1.0), ("4", "0", 4.0)), {"main": "4", "again": "1"})
    known = {"4": frozenset("3"), "3": frozenset("1")}
    found = next_parents(known, history_of(graph, 1), {"0", "1", "3", "4"})
    assert found == {
        "0": frozenset(),
        "1": frozenset("0"),
        "3": frozenset(),
        "4": frozenset("03"),
    }


HERE = LocalRunner()


@pytest.fixture
def past2(tmp_path: Path) -> Past:
    return Past(tmp_path / "v2", 2)


@pytest.fixture
def past1(tmp_path: Path) -> Past:
    return Past(tmp_path / "v1", 1)


def now() -> datetime:
    return datetime.now(UTC)


def remove_copies(past: Past) -> None:
    for path in (past.folder / "overwritten").iterdir():
        path.unlink()


def log_of_one_entry(past: Past) -> Any:
    config = quiet().RepositoryConfig.default()
    config.num_updates_per_repo_info_file = 1
    return quiet().Repository.open(past.storage, config=config)


@pytest.mark.parametrize("commits", [1, 3])
def test_repo_info_that_was_put_back_stops_the_run_until_a_person_accepts_it(
    past2: Past, commits: int
) -> None:
    past2.commit()
    with past2.put_back("repo"):
        for _ in range(commits):
            past2.commit()
        past2.collect()
    remove_copies(past2)
    before, record = past2.objects(), past2.record()
    past2.pass_days(40)
    record = past2.record()
    with pytest.raises(WitnessError) as refused:
        past2.collect()
    assert "operation" in str(refused.value)
    assert (past2.objects(), past2.record()) == (before, record)
    forget_lost(past2.uri, "that night's commits were wrong")
    for _ in range(2):
        assert past2.collect()["outcome"] == "success"
        assert (
            past2.objects() == before
        )  # with the history of the lost tip, which files of spec 2 do not name


def test_commit_that_no_run_saw_is_kept_when_the_repo_info_is_put_back(past2: Past) -> None:
    past2.commit()
    past2.collect()
    with past2.put_back("repo"):
        late = past2.commit()
    remove_copies(past2)
    before = past2.objects()
    assert past2.collect()["deleted"]["objects"] == 0
    assert past2.objects() == before
    assert late in before["snapshots"]


def test_commits_and_changes_of_refs_go_on_without_a_question(past2: Past) -> None:
    past2.commit()
    past2.collect()
    for number in range(3):
        past2.commit()
        past2.library.create_tag(f"t{number}", past2.tip())
    assert past2.collect()["outcome"] == "success"


def test_log_whose_older_part_is_gone_says_nothing_and_asks_no_person(past2: Past) -> None:
    past2.commit()
    past2.collect()
    repo = log_of_one_entry(past2)
    for _ in range(3):
        past2.commit(repo=repo)
    remove_copies(past2)
    assert past2.collect()["outcome"] == "success"


def test_reset_of_main_that_the_log_shows_asks_no_person(past2: Past) -> None:
    first = past2.commit()
    past2.commit()
    past2.collect()
    past2.library.reset_branch("main", first)
    past2.commit()
    past2.library.expire_snapshots(older_than=now())
    assert past2.collect()["outcome"] == "success"


def test_amended_tip_of_main_that_an_expiration_dropped_asks_no_person(past2: Past) -> None:
    import zarr

    past2.commit()
    past2.commit()
    past2.collect()
    session = past2.library.writable_session("main")
    zarr.create_array(session.store, name="more", shape=(1,), chunks=(1,), dtype="i4")[:] = 1
    session.amend("again")
    past2.library.expire_snapshots(older_than=now())
    assert past2.collect()["outcome"] == "success"


def upgraded(past1: Past) -> Any:
    writer = past1.library
    quiet().upgrade_icechunk_repository(past1.library, dry_run=False, delete_unused_v1_files=False)
    return writer


def refs_of(past: Past) -> set[str]:
    return {json.loads(path.read_text())["snapshot"] for path in past.folder.glob("refs/*/ref.json")}


def test_commits_of_a_writer_that_goes_on_with_spec_1_stop_the_run(past1: Past) -> None:
    past1.commit()
    writer = upgraded(past1)
    past1.commit(repo=writer)
    before = past1.objects()
    with pytest.raises(WitnessError) as refused:
        past1.collect()
    assert "branch:main" in str(refused.value)
    assert past1.objects() == before
    assert refs_of(past1) <= before["snapshots"]


def test_accepted_commits_of_such_a_writer_are_kept_and_later_ones_ask_again(past1: Past) -> None:
    past1.commit()
    writer = upgraded(past1)
    late = past1.commit(repo=writer)
    forget_lost(past1.uri, "written again with spec 2")
    past1.pass_days(40)
    assert past1.collect()["deleted"]["objects"] == 0
    assert late in past1.objects()["snapshots"]
    assert past1.collect()["outcome"] == "success"
    past1.commit(repo=writer)
    with pytest.raises(WitnessError):
        past1.collect()


@pytest.mark.parametrize("kept", [True, False])
def test_what_left_over_refs_reach_is_kept_until_a_person_lets_it_go(past1: Past, kept: bool) -> None:
    old = [past1.commit() for _ in range(3)]
    upgraded(past1)
    past1.commit()
    past1.library.expire_snapshots(older_than=now())
    past1.pass_days(40)
    report = past1.collect(keep_old_refs=kept)
    assert report["warnings"]
    left = past1.objects()["snapshots"]
    assert (set(old) <= left) is kept


def test_missing_files_of_left_over_refs_are_no_damage(past1: Past) -> None:
    past1.commit()
    upgraded(past1)
    past1.commit()
    past1.library.expire_snapshots(older_than=now())
    (old,) = refs_of(past1)
    (past1.folder / "snapshots" / old).unlink()
    assert past1.collect()["outcome"] == "success"


def test_refs_beside_a_log_that_does_not_name_the_upgrade_stop_the_run(past1: Past) -> None:
    past1.commit()
    upgraded(past1)
    short = log_of_one_entry(past1)
    for _ in range(3):
        past1.commit(repo=short)
    remove_copies(past1)
    with pytest.raises(WitnessError):
        past1.collect()


def test_ref_of_spec_1_that_is_written_between_mark_and_sweep_stops_the_sweep(past1: Past) -> None:
    past1.commit()
    past1.library.create_branch("job", past1.tip())
    past1.commit("job")
    writer = upgraded(past1)
    past1.library.delete_branch("job")
    past1.library.expire_snapshots(older_than=now())
    run = Run.open(plan_collection(past1.config(keep_lost_days=0, keep_old_refs=False)).run_uri)
    find_garbage(run, HERE)
    past1.commit("job", repo=writer)
    before = past1.objects()
    with pytest.raises(RefusedError):
        bulk_delete(run, HERE)
    release_lease(run)
    assert past1.objects() == before
