"""Listing of folders by ranges, foreign names, and old repo infos."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.list_candidates import listing, step
from dredge.icechunk.collection.list_candidates.listing import (
    ListConfig,
    ListResult,
    ListTask,
    bounds_for,
    list_range,
)
from dredge.icechunk.collection.list_candidates.step import needed_copies
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import bulk_delete, check_limits, collect, release_lease
from dredge.icechunk.format.metadata import parse_repo_info, written_at
from dredge.icechunk.repository import read_repo_info
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support import memory_store as memory
from tests.support.icechunk import contents, counts_of, local_storage, objects, quiet
from tests.support.icechunk_repo import Repo, change_number, split_local_folders
from tests.support.icechunk_tasks import CUTOFF, Task, named

HALF = "G"
"""The first letter of the names whose first bit is set."""
FAR = 1 << 63
FOREIGN = ("README.txt", "o" * 20, named(1)[:-1] + "1", named(2) + "0")


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def config(task: Task, **changes: Any) -> ListConfig:
    nothing = task.ids("mark/none.ids", ())
    given: dict[str, Any] = {
        "cutoff": CUTOFF,
        "candidate_rows": 100,
        "live": dict.fromkeys(("snapshots", "transactions", "manifests"), nothing),
        "pruned": nothing,
        "chunk_bits": 0,
        "chunk_shards": [[]],
        "kept_kinds": [],
        "pinned": (),
        "new_manifests": None,
    }
    return ListConfig(**(given | changes))


def listed(task: Task, given: ListConfig, kind: str = "chunks", low: str = "", high: str = "") -> ListResult:
    number = 7 if low else 6
    return list_range.body(task.run, given, ListTask(kind=kind, number=number, low=low, high=high))


def figures(**some: int) -> dict[str, int]:
    return dict.fromkeys(listing.FIGURES, 0) | some


def of(result: ListResult) -> dict[str, int]:
    return dict.fromkeys(listing.FIGURES, 0) | result.counts


def names(parts: Sequence[PartInfo]) -> list[str]:
    return [part.name.rpartition("/")[2] for part in parts]


def fill(task: Task, folder: str) -> None:
    for number in range(1, 6):
        time = CUTOFF if number in (4, 5) else CUTOFF - timedelta(microseconds=1)
        task.put(f"{folder}/{named(number)}", b"x" * 10**number, time)
    for name in FOREIGN:
        task.put(f"{folder}/{name}", b"x" * 3)


@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_only_what_is_old_and_an_id_that_nothing_live_names_is_a_candidate(
    task: Task, stand_in: Any, rows: int
) -> None:
    stand_in(memory.rows_of_a_page, lambda _: rows)
    fill(task, "chunks")
    shards = [[task.ids("mark/a.ids", [1]), task.ids("mark/b.ids", [1, 5, 8])]]
    found = listed(task, config(task, chunk_shards=shards))
    assert task.addresses(found.parts) == [f"chunks/{named(2)}", f"chunks/{named(3)}"]
    assert of(found) == figures(
        listed_objects=9,
        listed_bytes=111_122,
        foreign=4,
        candidates_objects=2,
        candidates_bytes=1100,
        young_objects=1,
        young_bytes=10_000,
        absent=1,
    )
    assert found.absent == [f"{8:016x}"]
    assert found.foreign == sorted(f"chunks/{name}" for name in FOREIGN)[:3]
    assert found.unproved == {}


def test_name_that_is_no_id_is_never_taken_for_a_live_one(task: Task) -> None:
    task.put("chunks/README.txt")
    found = listed(task, config(task, chunk_shards=[[task.ids("mark/a.ids", [0])]]))
    assert (found.counts["foreign"], found.absent) == (1, [f"{0:016x}"])


def test_range_asks_the_live_ids_of_its_own_shards_only_and_misses_none_of_others(task: Task) -> None:
    for number in (1, 2, FAR, FAR + 1):
        task.put(f"chunks/{named(number)}")
    task.put(f"chunks/{HALF}")
    shards = [
        [task.ids("mark/a.ids", [1])],
        [task.ids("mark/b.ids", [FAR]), task.ids("mark/c.ids", [FAR + 9])],
    ]
    given = config(task, chunk_bits=1, chunk_shards=shards)
    low, high = listed(task, given, high=HALF), listed(task, given, low=HALF)
    assert task.addresses(low.parts) == [f"chunks/{named(2)}"]
    assert task.addresses(high.parts) == [f"chunks/{named(FAR + 1)}"]
    assert (low.absent, high.absent) == ([], [f"{FAR + 9:016x}"])
    assert (low.counts["foreign"], high.counts["foreign"]) == (1, 0)
    assert names(low.parts) == ["found-chunks-0006-00000.parquet"]


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_files_are_compared_with_the_live_ids_of_their_kind(task: Task, kind: str) -> None:
    fill(task, kind)
    live = dict.fromkeys(("snapshots", "transactions", "manifests"), task.ids("mark/other.ids", [2, 3]))
    found = listed(task, config(task, live=live | {kind: task.ids("mark/own.ids", [1, 5, 6])}), kind)
    assert task.addresses(found.parts) == [f"{kind}/{named(2)}", f"{kind}/{named(3)}"]
    assert (found.counts["absent"], found.absent) == (1, [f"{6:016x}"])


def test_log_that_is_not_there_is_missed_only_when_the_repo_info_alone_names_it(task: Task) -> None:
    fill(task, "transactions")
    live = {"transactions": task.ids("mark/logs.ids", [1, 5, 6, 7])}
    found = listed(task, config(task, live=live, pruned=task.ids("mark/pruned.ids", [5, 7])), "transactions")
    assert (found.counts["absent"], found.absent) == (1, [f"{7:016x}"])
    whole = listed(
        task, config(task, live={"transactions": task.ids("mark/there.ids", [1, 5])}), "transactions"
    )
    assert (whole.counts["absent"], whole.absent) == (0, [])


def test_object_with_the_name_of_the_folder_is_a_foreign_one(task: Task) -> None:
    task.put("chunks/")
    found = listed(task, config(task), high=HALF)
    assert (found.counts["foreign"], found.foreign) == (1, ["chunks/"])


def test_names_equal_to_a_bound_are_listed_by_exactly_one_range(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0", "A", "AG", "AG0", "ZG", "a", "_"):
        (repo.folder / "chunks" / name).write_bytes(b"")
    split_local_folders(monkeypatch)
    report = collect(repo.config(dry_run=True))
    assert report["kinds"]["chunks"]["foreign"] == 7


@pytest.mark.parametrize(
    ("low", "high"), [("", ""), ("", "1"), ("G", "H"), ("Z", ""), ("", "01"), ("G0", "G1"), ("ZZ", "")]
)
def test_a_range_in_pieces_has_each_name_of_the_range_once(task: Task, low: str, high: str) -> None:
    ends = ["", "0", "00", "000", "G", "G0", "G00", "G01", "GZ", "H", "Z", "ZZ", "ZZ0", "ZZZ", "a", "_", "-"]
    for name in [*ends, *map(named, range(0, 1 << 64, 1 << 58))]:
        task.put(f"chunks/{name}")
    names = ListTask(kind="chunks", number=0, low=low, high=high)
    reader = task.run.open_store()
    whole, pieces = (
        [key for batch in pages for key in batch["key"].to_pylist()]
        for pages in (names.list(reader), names.list_at_once(reader))
    )
    assert pieces == whole
    assert whole


@pytest.mark.parametrize(("expected", "ranges"), [(100, 1), (101, 32), (3200, 32), (3201, 1024)])
def test_folders_are_split_by_how_much_they_hold(expected: int, ranges: int) -> None:
    bounds = bounds_for(expected, 100, is_remote=True)
    assert len(bounds) == ranges + 1
    assert bounds[0] == bounds[-1] == ""
    assert bounds_for(expected, 100, is_remote=False) == ["", ""]


@pytest.mark.parametrize("expected", [1, 101, 3201])
def test_every_id_falls_into_exactly_one_range_and_that_into_its_shards(expected: int) -> None:
    bounds = bounds_for(expected, 100, is_remote=True)
    found = [ListTask(kind="chunks", number=0, low=low, high=high) for low, high in pairwise(bounds)]
    rng = np.random.default_rng(4)
    bounds_of_ids = {number for names in found for number in names.numbers}
    edges = np.array(sorted(bounds_of_ids | {number - 1 for number in bounds_of_ids - {0}}), np.uint64)
    ids = np.unique(np.concatenate([edges, rng.integers(0, 2**64, 5000, dtype=np.uint64)]))
    parts = [names.part_of(ids) for names in found]
    assert np.array_equal(np.concatenate(parts), ids)
    for bits in (0, 3, 10):
        for names, part in zip(found, parts, strict=True):
            assert {int(number) >> (64 - bits) for number in part} <= set(names.shards(bits))


def test_open_writers_chunks_are_kept_by_the_age_guard(repo: Repo) -> None:  # E06
    session = repo.library.writable_session("main")
    change_number(session, 4711)
    report = collect(repo.config(unsafe_min_age_seconds=None, min_age_hours=24))
    assert report["deleted"]["objects"] == 0
    assert report["kinds"]["chunks"]["young_objects"] > 0
    session.commit("late")
    assert contents(repo.library, branch="main")[0] == 4711


def test_live_file_that_goes_missing_after_it_was_indexed_aborts(repo: Repo) -> None:
    collect(repo.config(dry_run=True))
    tip = repo.library.lookup_branch("main")
    (repo.folder / "manifests" / next(iter(repo.library.list_manifest_files(tip))).id).unlink()
    before = objects(repo.folder)
    with pytest.raises(FormatError, match="manifests"):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_foreign_names_are_left_alone(repo: Repo) -> None:  # E11
    for kind in ("chunks", "manifests", "snapshots", "transactions"):
        (repo.folder / kind / "README.txt").write_bytes(b"")
        (repo.folder / kind / ("0" * 19 + "1")).write_bytes(b"")
        (repo.folder / kind / ("o" * 20)).write_bytes(b"")
        (repo.folder / kind / "deeper").mkdir()
        (repo.folder / kind / "deeper" / ("0" * 20)).write_bytes(b"")
    orphan = repo.folder / "chunks" / ("0" * 20)
    orphan.write_bytes(b"")
    report = collect(repo.config())
    assert not orphan.exists()
    assert counts_of(report, "bulk_delete")["kept_objects"] == 0  # they were no candidates in the first place
    for kind in ("chunks", "manifests", "snapshots", "transactions"):
        assert any(warning.startswith("4 ") and kind in warning for warning in report["warnings"])
        assert report["kinds"][kind]["foreign"] == 4
        for name in ("README.txt", "0" * 19 + "1", "o" * 20, "deeper/" + "0" * 20):
            assert (repo.folder / kind / name).exists()


def test_old_copies_of_the_repo_info_go_and_the_operations_log_stays_whole(tmp_path: Path) -> None:
    icechunk = quiet()
    settings = icechunk.RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 5
    library = icechunk.Repository.create(local_storage(tmp_path), config=settings, spec_version=2)
    for number in range(30):
        library.writable_session("main").commit(str(number), allow_empty=True)
    (tmp_path / "overwritten" / "notes.txt").write_bytes(b"")
    before = {path.name for path in (tmp_path / "overwritten").iterdir()}
    report = collect(Repo(tmp_path).config())
    assert "overwritten" not in report["kinds"]
    young = collect(Repo(tmp_path).config(overwritten_min_age_hours=1))
    assert young["kinds"]["overwritten"]["candidates_objects"] == 0
    report = collect(Repo(tmp_path).config(overwritten_min_age_hours=0))
    left = {path.name for path in (tmp_path / "overwritten").iterdir()}
    info = parse_repo_info((tmp_path / "repo").read_bytes())
    assert report["kinds"]["overwritten"]["deleted_objects"] == len(before - left) > 15
    assert {update.backup for update in info.updates[1:]} <= left
    assert "notes.txt" in left
    reopened = icechunk.Repository.open(local_storage(tmp_path), config=settings)
    assert len(list(reopened.ops_log())) == 31
    assert len(list(reopened.ancestry(branch="main"))) == 31
    # The chain moves with every change, so the log shortens then; it must not fail.
    reopened.writable_session("main").commit("more", allow_empty=True)
    assert 10 <= len(list(icechunk.Repository.open(local_storage(tmp_path), config=settings).ops_log())) < 32
    assert collect(Repo(tmp_path).config(overwritten_min_age_hours=0))["outcome"] == "success"


def old_repo_infos(folder: Path, count: int) -> Any:
    icechunk = quiet()
    settings = icechunk.RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 5
    library = icechunk.Repository.create(local_storage(folder), config=settings, spec_version=2)
    for number in range(count):
        library.writable_session("main").commit(str(number), allow_empty=True)
    return library


def age(folder: Path, hours: float) -> None:
    for path in list((folder / "overwritten").iterdir()):
        made = written_at(path.name)
        assert made is not None
        then = time.time() - hours * 3600
        os.utime(path, (then, then))


def test_old_repo_infos_have_an_age_limit_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_repo_infos(tmp_path, 30)
    age(tmp_path, 30)
    monkeypatch.setattr(step, "written_at", lambda name: datetime.now(UTC) - timedelta(hours=30))

    def candidates(**ages: float) -> int:
        run = Repo(tmp_path).listed(**ages)
        release_lease(run)
        return output_of(run).counts["overwritten_candidates_objects"]

    day, older, never = {"unsafe_min_age_seconds": 86_400}, 31, 24 * 365
    assert candidates(**day, overwritten_min_age_hours=24) > 15
    assert candidates(**day, overwritten_min_age_hours=older) == 0  # their own limit is the longer one
    assert candidates(unsafe_min_age_seconds=0, overwritten_min_age_hours=never) == 0
    assert candidates(unsafe_min_age_seconds=older * 3600, overwritten_min_age_hours=0) == 0  # the run's is


def test_copy_that_the_log_came_to_need_after_the_listing_is_kept(tmp_path: Path) -> None:
    library = old_repo_infos(tmp_path, 30)
    run = Repo(tmp_path).listed(overwritten_min_age_hours=0)
    summary = check_limits(run)
    assert summary.counts["deletable_objects"] > 15
    candidates = set()
    for key in output_of(run).keys(run.folder, "overwritten"):
        candidates.add(key.removeprefix("overwritten/"))
    for number in range(2):
        library.writable_session("main").commit(f"meanwhile {number}", allow_empty=True)
    needed = needed_now(tmp_path) & candidates
    assert needed
    bulk_delete(run, LocalRunner())
    left = {path.name for path in (tmp_path / "overwritten").iterdir()}
    assert needed <= left
    assert len(candidates - left) > 10


def output_of(run: Run) -> ListCandidatesOutput:
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    return ListCandidatesOutput.of(summary)


def needed_now(folder: Path) -> set[str]:
    reader = open_reader(f"file://{folder}")
    return needed_copies(reader, read_repo_info(reader))
