"""Live snapshots, manifests and chunks."""

import hashlib
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.icechunk.collection import index
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import (
    ManifestIndex,
    SnapshotRow,
    snapshot_rows,
    write_manifest_rows,
)
from dredge.icechunk.collection.mark import chunks, step
from dredge.icechunk.collection.mark.chunks import (
    Chunks,
    find_live_chunks,
    unite_layers,
)
from dredge.icechunk.collection.mark.step import (
    Roots,
    choose_roots,
    index_snapshots,
    read_index,
    with_ancestors,
)
from dredge.icechunk.collection.run import Base, Run
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.manifests import NATIVE, NamedChunks, parse_manifest
from dredge.icechunk.format.metadata import SnapshotEntry, parse_snapshot
from dredge.icechunk.history import History
from dredge.icechunk.ids import decode_id, hashes_of
from dredge.icechunk.repository import read_history
from dredge.runs.clock import utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.sets.hashes import Counted, read_counted, write_counted
from dredge.sets.live import CountedSet
from dredge.storage import open_reader
from tests.support.icechunk import ROOT_ID, Graph, build, contents, history_of, local_storage, objects
from tests.support.icechunk_repo import Repo, change_number, commit, main_manifest, split_local_folders
from tests.support.icechunk_tasks import STATE, Task


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", [damage, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_unreadable_live_file_aborts_with_nothing_deleted(
    repo: Repo, kind: str, how: Callable[[Path], Any]
) -> None:  # E10
    if kind == "snapshots":
        path = repo.folder / kind / repo.ids["13"]
    else:
        tip = repo.library.lookup_branch("main")
        path = repo.folder / kind / next(iter(repo.library.list_manifest_files(tip))).id
    how(path)
    before = objects(repo.folder)
    with pytest.raises(FormatError):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_manifest_that_says_fewer_references_than_its_snapshot_is_refused(repo: Repo) -> None:
    path = main_manifest(repo.folder)
    tip = read_history(open_reader(repo.uri)).branches["main"]
    place = repo.folder / "snapshots" / tip
    opened = open_file(place.read_bytes(), tip, FileType.SNAPSHOT)
    (info,) = parse_snapshot(place.read_bytes(), tip).manifests
    body = bytearray(opened.body)
    counts = [at for at in range(0, len(body), 4) if body[at : at + 4] == info.refs.to_bytes(4, "little")]
    before = objects(repo.folder)
    changed = 0
    for at in counts:
        wrong = bytearray(body)
        wrong[at] ^= 32
        data = close_file(opened.header, bytes(wrong))
        try:
            if parse_snapshot(data, tip).manifests[0].refs == info.refs:
                continue
        except FormatError:
            continue
        changed += 1
        place.write_bytes(data)
        shutil.rmtree(repo.folder / "_dredge")
        with pytest.raises(FormatError, match="chunk references"):
            collect(repo.config())
    assert changed == 1
    assert objects(repo.folder) == before
    assert path.exists()


def test_manifest_left_without_arrays_is_refused(repo: Repo) -> None:
    path = main_manifest(repo.folder)
    body = (16).to_bytes(4, "little") + bytes(4) + bytes([6, 0, 16, 0, 4, 0, 0, 0])
    body += (8).to_bytes(4, "little") + decode_id(path.name)
    path.write_bytes(close_file(path.read_bytes()[:39], body))
    assert parse_manifest(path.read_bytes(), path.name).arrays == ()
    before = objects(repo.folder)
    with pytest.raises(FormatError, match=path.name):
        collect(repo.config())
    assert objects(repo.folder) == before


NOW = datetime(2026, 5, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: Main went back from 2 to 1, so nothing reaches 2.
HISTORY = history_of(Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "1"}), 1)


def roots_of(spec: int, *files: tuple[str, float]) -> Roots:
    history = HISTORY if spec == 1 else history_of(Graph((("1", "0", 1.0),), {"main": "1"}), 2)
    cutoff = NOW - 10 * HOUR
    return choose_roots(history, [(node, cutoff - hours * HOUR) for node, hours in files], cutoff)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(("hours", "young"), [(-1, True), (0, True), (1 / 3600, True), (2 / 3600, False)])
def test_unreachable_snapshot_that_is_not_older_than_the_cutoff_is_live(
    spec: int, hours: float, young: bool
) -> None:
    # The time is of whole seconds, so it counts as one later.
    roots = roots_of(spec, ("2", hours), ("1", hours))
    assert roots.young == ({"2"} if young else set())
    assert roots.tips == {"0", "1"} | roots.young


def test_every_snapshot_that_the_repo_info_of_spec_2_lists_is_live_whatever_refs_reach() -> None:
    history = history_of(Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "1"}), 2)
    roots = choose_roots(history, [("2", NOW - 999 * HOUR)], NOW)
    assert (set(roots.tips), set(roots.young)) == ({"0", "1", "2"}, set())


def test_dangling_snapshots_of_spec_2_that_the_repo_info_lists_are_kept(tmp_path: Path) -> None:
    linear = tuple((str(number), str(number - 1), float(number)) for number in range(1, 7))
    ids = build(local_storage(tmp_path), Graph(linear, {"main": "2"}), 2)
    repo = Repo(tmp_path, ids)
    assert collect(repo.config())["deleted"]["objects"] == 0
    repo.library.create_branch("back", ids["6"])
    assert contents(repo.library, branch="back")[6] == 6


def test_snapshot_of_spec_1_that_is_known_but_not_reached_is_not_live() -> None:
    entries = {
        node: SnapshotEntry(node, parent, 0, "") for node, parent in (("0", None), ("1", "0"), ("2", "1"))
    }
    known = History(1, entries, {"main": "1"}, {})
    old = [("2", NOW - 99 * HOUR)]
    roots = choose_roots(known, old, NOW)
    assert roots.tips == {"0", "1"}


HERE = LocalRunner()


def test_ancestors_of_a_young_unreachable_snapshot_are_kept(tmp_path: Path) -> None:  # E03
    linear = [(str(number), str(number - 1), float(number)) for number in range(1, 5)]
    ids = build(local_storage(tmp_path), Graph(tuple(linear), {"main": "4"}), 1)
    an_hour_ago = utc_now().timestamp() - 3600
    for path in tmp_path.rglob("*"):
        if path.is_file():
            os.utime(path, (an_hour_ago, an_hour_ago))
    repo = Repo(tmp_path, ids)
    session = repo.library.writable_session("main")
    change_number(session, 5)
    young = session.commit("5")
    repo.library.reset_branch("main", ids["2"])
    report = collect(repo.config(unsafe_min_age_seconds=1800))
    assert report["deleted"]["objects"] == 0
    repo.library.create_branch("back", young)
    assert contents(repo.library, branch="back")[0] == 5
    assert [info.id for info in repo.library.ancestry(branch="back")][1:] == [
        ids["4"],
        ids["3"],
        ids["2"],
        ids["1"],
        ROOT_ID,
    ]


def test_live_snapshot_that_no_task_read_stops_the_mark(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*arguments: Any) -> Any:
        return list(snapshot_rows(*arguments))[1:]

    monkeypatch.setattr(step, "snapshot_rows", forgetful)
    before = objects(repo.folder)
    with pytest.raises(FormatError):
        collect(repo.config())
    assert objects(repo.folder) == before


def path_of(repo: Repo, node: str) -> list[str]:
    return [info.id for info in repo.library.ancestry(snapshot_id=repo.ids[node])]


def test_ancestors_of_what_is_not_in_the_history_are_live_down_to_the_first(v1: Repo) -> None:
    reader, path = open_reader(v1.uri), path_of(v1, "7")
    assert len(path) > 2
    assert with_ancestors(reader, [path[0]], ()) == {*path}
    assert with_ancestors(reader, [path[0], path[1]], ()) == {*path}
    assert with_ancestors(reader, [path[0], v1.ids["14"]], [v1.ids["14"]]) == {*path, v1.ids["14"]}
    assert with_ancestors(reader, [path[0]], [path[0]]) == {path[0]}


def test_path_that_comes_back_to_itself_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task, parents = Task("mark"), {"snapshots/A": "B", "snapshots/B": "A"}
    asked: list[str] = []
    for key in parents:
        task.put(key)

    def parsed(_: bytes, key: str) -> SimpleNamespace:
        asked.append(key)
        assert len(asked) < 10
        return SimpleNamespace(parent_id=parents[key])

    monkeypatch.setattr(step, "parse_snapshot", parsed)
    assert with_ancestors(open_reader(task.uri), ["A"], ()) == {"A", "B"}
    assert asked == ["snapshots/A", "snapshots/B"]


def indexed(run: Run, live: set[str]) -> list[SnapshotRow]:
    with run.folder.writing(StepTry.claim(run.folder.writer, "mark")):
        index, known = read_index(run)
        rows, parts = index_snapshots(run, HERE, known, live)
        index.add(run.state, f"{run.folder.label}-1", parts, [])
        return rows


def test_damaged_first_read_of_a_snapshot_is_forgotten(v1: Repo) -> None:
    commit(v1, 100)
    place = v1.folder / "snapshots" / read_history(open_reader(v1.uri)).branches["main"]
    sound = place.read_bytes()
    opened = open_file(sound, place.name, FileType.SNAPSHOT)
    named = decode_id(parse_snapshot(sound, place.name).manifests[0].id)
    absent = bytes([named[0] ^ 1]) + named[1:]
    place.write_bytes(close_file(opened.header, opened.body.replace(named, absent)))
    with pytest.raises(FormatError, match=r"a live file is missing: .*manifests/"):
        collect(v1.config(mode="auto"))
    place.write_bytes(sound)
    before = contents(v1.library, branch="main")
    assert collect(v1.config(mode="auto"))["warnings"] == []
    assert contents(v1.library, branch="main") == before


def test_small_shards_and_many_tasks_find_the_same(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = collect(repo.config(dry_run=True))
    shutil.rmtree(repo.folder / "_dredge")
    tuning = Tuning(
        snapshots_per_task=2,
        refs_per_task=1,
        ids_per_shard=4,
        keys_per_task=1,
        candidate_rows=2,
        delete_keys=1,
    )
    split_local_folders(monkeypatch)
    small = collect(repo.config(dry_run=True, tuning=tuning))
    assert small["kinds"] == whole["kinds"]
    assert collect(repo.config(tuning=tuning))["deleted"]["objects"] == whole["candidates"]["objects"]


def test_live_manifest_that_no_task_read_stops_the_mark(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    first = iter([True])  # only the sets lack it, not the counts

    def forgetful(*arguments: Any) -> Any:
        found = index.read_manifest_rows(*arguments)
        return found[1:] if next(first, False) else found

    monkeypatch.setattr(chunks, "read_manifest_rows", forgetful)
    before = objects(repo.folder)
    with pytest.raises(FormatError):
        collect(repo.config())
    assert objects(repo.folder) == before


@pytest.fixture
def task() -> Task:
    return Task("mark")


def counts(task: Task, parts: list[PartInfo]) -> dict[str, dict[int, int]]:
    folder, found = RunFolder(task.state, "r"), {}
    for part in parts:
        read = read_counted(folder, part)
        stem = part.name.removesuffix(".counts").rpartition("/")[2]
        found[stem] = dict(zip(read.hashes.tolist(), read.counts.tolist(), strict=True))
    return found


def layer(task: Task, name: str, *shards: dict[int, int]) -> list[PartInfo]:
    folder = RunFolder(task.state, "r")
    pairs = [(np.array([*shard], np.uint64), np.array([*shard.values()], np.int32)) for shard in shards]
    return [
        write_counted(folder, f"counted/{name}-{number:04d}.counts", Counted(*pair))
        for number, pair in enumerate(pairs)
        if len(pair[0])
    ]


def test_chunk_that_was_taken_away_more_often_than_added_stops_the_run(task: Task) -> None:
    counted = CountedSet.of(layer(task, "a", {1: 2, 2: 5}), 0).then(layer(task, "b", {1: -3, 2: 1}))
    with pytest.raises(FormatError):
        unite_layers.body(task.run, counted, [0])


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan()


def test_clean_run_whose_index_lost_a_live_manifest_stops(run: Run) -> None:
    part = write_manifest_rows(run.state, "x", [("A", NamedChunks(np.array([1], np.uint64)))])
    index = ManifestIndex(manifest_parts={part.name: part}, manifests_of={part.name: ["A", "B"]})
    with run.folder.writing(StepTry.claim(run.folder.writer, "mark")):
        counted = find_live_chunks(run, HERE, index, None, {"A": 1}).counted
        assert counted is not None
        assert len(counted.layers) == 1
        with pytest.raises(FormatError):
            find_live_chunks(run, HERE, index, None, {"A": 1, "B": 1})


class Earlier:
    def __init__(self, repo: Repo, **tuning: int) -> None:
        self.run = repo.plan(tuning=Tuning(**tuning))
        (info,) = repo.library.list_manifest_files(repo.ids["7"])
        self.manifest, self.refs = info.id, {"B": 1, info.id: info.num_chunk_refs}
        data = (repo.folder / "manifests" / info.id).read_bytes()
        self.md5 = hashlib.md5(data).hexdigest()
        arrays = parse_manifest(data, "").arrays
        self.chunks = [int(one) for array in arrays for one in hashes_of(array.ids[array.kind == NATIVE])]
        folder = RunFolder(self.run.state, "r")
        counts = Counted(np.array([1, 2, 3], np.uint64), np.array([1, 2, 1], np.int32))
        part = write_counted(folder, "counted/before-0000.counts", counts)
        self.base = Base(replace(STATE, counted=CountedSet.of([part], 0)), folder)
        self.base.__dict__["rows"] = {"S": SnapshotRow("S", ("A", "B"), (2, 2))}
        self.index = ManifestIndex()

    def indexed(self, name: str, **manifests: list[int]) -> PartInfo:
        rows = [(manifest, NamedChunks(np.array(ids, np.uint64))) for manifest, ids in manifests.items()]
        part = write_manifest_rows(self.run.state, name, rows)
        self.index.add(self.run.state, name, [], [(part, [*manifests])])
        return part

    def change(self) -> Chunks:
        with self.run.folder.writing(StepTry.claim(self.run.folder.writer, "mark")):
            return find_live_chunks(self.run, HERE, self.index, self.base, self.refs)

    def counts(self, change: Chunks, *more: int) -> list[int]:
        wanted = np.array([1, 2, 3, *more], np.uint64)
        (found,) = change.counted.counts(RunFolder(self.run.state, "r"), [wanted])
        return [int(one) for one in found]


def test_new_manifest_that_cannot_be_counted_stops_the_run(v1: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "index_manifests", lambda *_, **__: {})
    with pytest.raises(FormatError):
        Earlier(v1).change()
