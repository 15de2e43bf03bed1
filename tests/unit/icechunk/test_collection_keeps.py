"""What a collection must not delete, and what stops it with nothing deleted."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import (
    ConfigError,
    FormatError,
    LeaseHeldError,
    PartialError,
    RefusedError,
    UnavailableError,
)
from dredge.icechunk.collection import guards, index, listing, marking, recheck, sweeping, verifying
from dredge.icechunk.collection.config import CollectConfig, Safety, Tuning
from dredge.icechunk.collection.plan import Context, plan_collection
from dredge.icechunk.collection.recheck import look_again
from dredge.icechunk.collection.report import make_report
from dredge.icechunk.collection.steps import collect, release_lease
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.snapshots import instant, parse_snapshot
from dredge.icechunk.ids import ROOT_ID
from dredge.icechunk.maintenance import make_lease
from dredge.icechunk.repository import read_history
from dredge.runs import gate
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.storage import DeleteOutcome, open_deleter, open_reader
from tests.support.icechunk import (
    Graph,
    build,
    contents,
    counts_of,
    graph_of,
    local_storage,
    objects,
    quiet,
    scenarios,
)

SAMPLE = scenarios()[0]
HERE = LocalRunner()


class Repo:
    def __init__(self, folder: Path, ids: dict[str, str]) -> None:
        self.folder, self.ids, self.uri = folder, ids, f"file://{folder}"

    @property
    def library(self) -> Any:
        return quiet().Repository.open(local_storage(self.folder))

    @property
    def spec(self) -> int:
        return read_history(open_reader(self.uri)).spec_version

    def config(self, **changes: Any) -> CollectConfig:
        settings = {"dry_run": False, "unsafe_min_age_seconds": 0, "grace_hours": 0} | changes
        return CollectConfig(uri=self.uri, **settings)

    def open(self, **changes: Any) -> Context:
        return Context.open(plan_collection(self.config(**changes)).run_uri)

    def marked(self, **changes: Any) -> Context:
        """Go as far as a run goes before it deletes."""
        context = self.open(**changes)
        marking.mark(context, HERE)
        listing.find_candidates(context, HERE)
        guards.check_limits(context)
        return context


def expired(folder: Path, spec: int) -> dict[str, str]:
    ids = build(local_storage(folder), graph_of(SAMPLE), spec)
    history = read_history(open_reader(f"file://{folder}"))
    middle = (history.snapshots[ids["7"]].flushed_at + history.snapshots[ids["8"]].flushed_at) // 2
    expire(f"file://{folder}", instant(middle))
    return ids


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("both")
    return {spec: (folder / f"v{spec}", expired(folder / f"v{spec}", spec)) for spec in (1, 2)}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repo(
    request: pytest.FixtureRequest, both: dict[int, tuple[Path, dict[str, str]]], tmp_path: Path
) -> Repo:
    made, ids = both[request.param]
    shutil.copytree(made, tmp_path / "repo")
    return Repo(tmp_path / "repo", ids)


@pytest.fixture
def v1(both: dict[int, tuple[Path, dict[str, str]]], tmp_path: Path) -> Repo:
    shutil.copytree(both[1][0], tmp_path / "repo")
    return Repo(tmp_path / "repo", both[1][1])


def write(session: Any, value: int, at: int = 0) -> None:
    import zarr

    zarr.open_array(session.store, path="numbers")[at] = value


def test_open_writers_chunks_are_kept_by_the_age_guard(repo: Repo) -> None:  # E06
    session = repo.library.writable_session("main")
    write(session, 4711)
    report = collect(repo.config(unsafe_min_age_seconds=None, min_age_hours=24))
    assert report["deleted"]["objects"] == 0
    assert report["kinds"]["chunks"]["young_objects"] > 0
    session.commit("late")
    assert contents(repo.library, branch="main")[0] == 4711


def test_chunk_of_a_writer_that_commits_before_the_sweep_is_kept_although_it_was_a_candidate(
    repo: Repo,
) -> None:
    session = repo.library.writable_session("main")
    write(session, 4711)
    context = repo.marked()  # without any minimum age the open writer's chunk is a candidate
    session.commit("late")
    sweeping.sweep(context, HERE)
    verifying.verify(context)
    assert contents(repo.library, branch="main")[0] == 4711
    counts = counts_of(make_report(context), "ledger")
    assert (counts["kept_objects"], counts["new_since_mark"]) == (1, 1)


@pytest.mark.parametrize("how", ["branch", "tag", "commit"])
def test_ref_on_a_released_snapshot_between_mark_and_sweep_stops_the_sweep(v1: Repo, how: str) -> None:
    context = v1.marked()
    before = objects(v1.folder)
    if how == "tag":
        v1.library.create_tag("back", v1.ids["7"])
    else:
        v1.library.create_branch("back", v1.ids["7"])
    if how == "commit":
        v1.library.writable_session("back").commit("on top", allow_empty=True)
        before = objects(v1.folder)
    with pytest.raises(RefusedError, match=r"in use again by (branch|tag) back"):
        sweeping.sweep(context, HERE)
    assert objects(v1.folder) == before
    assert contents(v1.library, **{"tag" if how == "tag" else "branch": "back"})


def test_ref_on_a_released_snapshot_during_the_sweep_stops_it(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first request deletes snapshot files; a branch appears on one whose turn has not come.
    context = v1.marked(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0.02))
    doomed = [v1.ids[name] for name in ("1", "2", "4", "6", "7")]

    class Slow:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            found = self.inner.delete(keys)
            left = [node for node in doomed if (v1.folder / "snapshots" / node).exists()]
            if left and "back" not in v1.library.list_branches():
                v1.library.create_branch("back", left[-1])
            time.sleep(0.5)
            return found

    monkeypatch.setattr(sweeping, "open_deleter", Slow)
    with pytest.raises(RefusedError, match="in use again by branch back"):
        sweeping.sweep(context, HERE)
    assert make_report(context)["kinds"]["chunks"].get("deleted_objects", 0) == 0
    assert make_report(context)["outcome"] == "partial"


class Dies:
    """A deleter whose driver says nothing any more after its first request."""

    def __init__(self, uri: str, happens: Callable[[], object]) -> None:
        self.inner, self.happens = open_deleter(uri), happens
        self.requests = 0

    def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
        self.requests += 1
        found = self.inner.delete(keys)
        self.happens()
        return found


def test_when_nobody_looks_at_refs_any_more_workers_stop_by_themselves(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A driver that was killed or hangs writes nothing; its workers must not go on for long.
    safety = Safety(gate_every_seconds=1000, watch_silence_seconds_max=60)
    context = repo.marked(tuning=Tuning(delete_keys=1), safety=safety)
    monkeypatch.setattr(gate.Gate, "is_open", always_look(gate.Gate.is_open))

    def minutes_pass() -> None:
        for path in Path(context.folder.uri.removeprefix("file://"), "ledger/_watch").iterdir():
            before = path.stat().st_mtime - 61
            os.utime(path, (before, before))

    workers: list[Dies] = []
    monkeypatch.setattr(
        sweeping, "open_deleter", lambda uri: workers.append(Dies(uri, minutes_pass)) or workers[-1]
    )
    with pytest.raises(UnavailableError, match="nobody had looked at the refs for too long"):
        sweeping.sweep(context, HERE)
    assert sum(worker.requests for worker in workers) == 1
    assert make_report(context)["deleted"]["objects"] == 1
    monkeypatch.undo()
    sweeping.sweep(context, HERE)
    verifying.verify(context)


def always_look(is_open: Callable[[gate.Gate], bool]) -> Callable[[gate.Gate], bool]:
    def look(self: gate.Gate) -> bool:
        self._trusted = 0
        return is_open(self)

    return look


def test_when_refs_cannot_be_looked_at_the_sweep_stops(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    context = repo.marked()
    before = objects(repo.folder)

    def look(*_: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(recheck, "look_again", look)  # the watch's look; the sweep's own is another
    with pytest.raises(UnavailableError, match="refs could not be looked at"):
        sweeping.sweep(context, HERE)
    assert objects(repo.folder) == before


def test_gate_is_closed_before_the_driver_has_looked(repo: Repo) -> None:
    context = repo.marked()
    watched = "ledger/_watch/001.json"
    config = gate.GateConfig(
        lease=context.plan.lease, watch=watched, trusted_seconds=0, silence_seconds_max=60
    )
    with pytest.raises(FormatError, match="outside a try"):
        gate.Gate(context.folder, context.state, config)
    with context.folder.writing(StepTry.newest(context.folder.writer, "ledger")):
        door = gate.Gate(context.folder, context.state, config)
    assert not door.is_open()
    gate.write_look(context.folder, watched, True, "")
    assert door.is_open()
    gate.write_look(context.folder, watched, False, "something rose")
    assert not door.is_open()


def test_released_snapshot_cannot_come_back_on_spec_2_unnoticed(repo: Repo) -> None:
    history = read_history(open_reader(repo.uri))
    known = set(history.snapshots) - {repo.ids["14"]}
    since = look_again(open_reader(repo.uri), repo.spec, known, {repo.ids["14"]})
    assert since.risen is not None
    assert repo.ids["14"] in since.risen


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
    with pytest.raises(
        FormatError, match=r"missing|truncated|not an Icechunk|damaged|after the end|zstd|decoded body"
    ):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_live_file_that_goes_missing_after_it_was_indexed_aborts(repo: Repo) -> None:
    collect(repo.config(dry_run=True))
    tip = repo.library.lookup_branch("main")
    (repo.folder / "manifests" / next(iter(repo.library.list_manifest_files(tip))).id).unlink()
    before = objects(repo.folder)
    with pytest.raises(FormatError, match="live manifests are not listed"):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_live_manifest_that_no_task_read_stops_the_mark(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*arguments: Any) -> Any:
        return index.read_manifest_rows(*arguments)[1:]

    monkeypatch.setattr(marking, "read_manifest_rows", forgetful)
    before = objects(repo.folder)
    with pytest.raises(FormatError, match="live manifests were not read"):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_live_snapshot_that_no_task_read_stops_the_mark(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*arguments: Any) -> Any:
        return list(snapshot_rows(*arguments))[1:]

    snapshot_rows = marking.snapshot_rows
    monkeypatch.setattr(marking, "snapshot_rows", forgetful)
    before = objects(repo.folder)
    with pytest.raises(FormatError, match="live snapshots were not read"):
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
    assert counts_of(report, "ledger")["kept_objects"] == 0  # they were no candidates in the first place
    for kind in ("chunks", "manifests", "snapshots", "transactions"):
        assert report["kinds"][kind]["foreign"] == 4
        for name in ("README.txt", "0" * 19 + "1", "o" * 20, "deeper/" + "0" * 20):
            assert (repo.folder / kind / name).exists()


def live_manifests(repo: Repo) -> set[str]:
    names = [f"snapshots/{snapshot}" for snapshot in read_history(open_reader(repo.uri)).snapshots]
    parsed = [parse_snapshot((repo.folder / name).read_bytes(), name) for name in names]
    return {info.id for snapshot in parsed for info in snapshot.manifests}


def test_first_mark_of_released_snapshots_only_remembers_them(v1: Repo) -> None:
    before = objects(v1.folder)
    first = collect(v1.config(grace_hours=0.0002))
    assert first["deleted"]["objects"] == 0
    assert "kept until they have been seen unreachable for 0.72 s" in first["warnings"][0]
    assert objects(v1.folder) == before
    time.sleep(0.8)
    assert collect(v1.config(grace_hours=0.0002))["deleted"]["objects"] == 20


@pytest.mark.parametrize("folder", ["snapshots", "manifests"])
def test_a_released_snapshot_that_cannot_be_read_stops_no_run_after_its_grace(v1: Repo, folder: str) -> None:
    """What the library's own collection leaves when it is killed: a snapshot whose manifest is gone."""
    key = f"snapshots/{v1.ids['7']}"
    if folder == "manifests":
        used = {info.id for info in parse_snapshot((v1.folder / key).read_bytes(), key).manifests}
        key = f"manifests/{min(used - live_manifests(v1))}"
    (v1.folder / key).unlink()
    if folder == "snapshots":
        (v1.folder / key).write_bytes(b"torn")
    with pytest.raises(FormatError, match=key):
        collect(v1.config(grace_hours=0.0002))
    time.sleep(0.8)
    report = collect(v1.config(grace_hours=0.0002))
    assert report["outcome"] == "success"
    assert not (v1.folder / "snapshots" / v1.ids["7"]).exists()
    assert contents(v1.library, branch="main")


def test_grace_starts_anew_for_a_snapshot_that_was_in_use_again(v1: Repo) -> None:
    collect(v1.config(grace_hours=0.0002))
    v1.library.create_branch("back", v1.ids["7"])
    time.sleep(0.8)
    collect(v1.config(grace_hours=0.0002, dry_run=True))
    v1.library.delete_branch("back")
    report = collect(v1.config(grace_hours=0.0002))
    assert (v1.folder / "snapshots" / v1.ids["7"]).exists()
    assert report["kinds"]["snapshots"]["candidates_objects"] == 3  # 1, 2 and 4; 6 and 7 wait again


def test_ancestors_of_a_young_unreachable_snapshot_are_kept(tmp_path: Path) -> None:  # E03
    linear = [(str(number), str(number - 1), float(number)) for number in range(1, 5)]
    ids = build(local_storage(tmp_path), Graph(tuple(linear), {"main": "4"}), 1)
    time.sleep(1.5)
    repo = Repo(tmp_path, ids)
    session = repo.library.writable_session("main")
    write(session, 5)
    young = session.commit("5")
    repo.library.reset_branch("main", ids["2"])
    report = collect(repo.config(unsafe_min_age_seconds=1.0))
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


def test_dangling_snapshots_of_spec_2_that_the_repo_info_lists_are_kept(tmp_path: Path) -> None:
    linear = tuple((str(number), str(number - 1), float(number)) for number in range(1, 7))
    ids = build(local_storage(tmp_path), Graph(linear, {"main": "2"}), 2)
    repo = Repo(tmp_path, ids)
    assert collect(repo.config())["deleted"]["objects"] == 0
    repo.library.create_branch("back", ids["6"])
    assert contents(repo.library, branch="back")[6] == 6


def test_limits_hold_a_run_and_only_warn_in_a_dry_run(repo: Repo) -> None:
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match=r"max_objects: .* the limit is 3"):
        collect(repo.config(max_delete_objects=3))
    with pytest.raises(RefusedError, match="max_percent"):
        collect(repo.config(max_delete_percent=1))
    with pytest.raises(RefusedError, match="max_bytes"):
        collect(repo.config(max_delete_bytes=10))
    assert objects(repo.folder) == before
    report = collect(repo.config(max_delete_objects=3, dry_run=True))
    assert any("would await approval" in warning for warning in report["warnings"])
    context = repo.open()
    marking.mark(context, HERE)
    listing.find_candidates(context, HERE)
    with pytest.raises(RefusedError, match="needs the result of guard"):
        sweeping.sweep(context, HERE)


def test_candidates_that_were_counted_but_not_written_stop_the_run(repo: Repo) -> None:
    context = repo.open()
    marking.mark(context, HERE)
    found = listing.find_candidates(context, HERE)
    counts = {**found.counts, "chunks_candidates_objects": found.counts["chunks_candidates_objects"] + 1}
    context.folder.write_summary(replace(found, counts=counts))
    with pytest.raises(RefusedError, match="chunks_complete"):
        guards.check_limits(context)


def test_canary_among_the_candidates_stops_the_run(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fast loop that loses references is found by the other way of reading.
    real = marking.native_chunk_hashes
    monkeypatch.setattr(marking, "native_chunk_hashes", lambda *file, **said: real(*file, **said)[:0])
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match="objects that refs need are candidates, such as chunks/"):
        collect(repo.config())
    assert objects(repo.folder) == before


def failing(kind: str, times: int, code: str = "SlowDown") -> Callable[[str], Any]:
    left = [times]

    class Failing:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            if keys[0].startswith(kind) and left[0]:
                left[0] -= 1
                return [DeleteOutcome(key, "failed", code, "later") for key in keys]
            return self.inner.delete(keys)

    return Failing


def test_failed_deletes_are_counted_later_kinds_are_not_begun_and_a_rerun_finishes(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = repo.marked()
    chunks = objects(repo.folder)["chunks"]
    monkeypatch.setattr(sweeping, "open_deleter", failing("manifests", 1))
    with pytest.raises(UnavailableError, match="5 objects could not be deleted"):
        sweeping.sweep(context, HERE)
    assert objects(repo.folder)["chunks"] == chunks
    report = make_report(context)
    assert (report["outcome"], report["failed"]["objects"]) == ("partial", 5)
    summary = sweeping.sweep(context, HERE)
    assert summary.status == "success"
    assert summary.counts["failed_objects"] == 0
    assert summary.counts["deleted_objects"] == (20 if repo.spec == 1 else 15)
    attempts = [
        row["attempt"]
        for table in context.folder.read_parts(summary.parts_below("ledger/manifests"))
        for row in table.to_pylist()
    ]
    assert set(attempts) == {2}


def test_objects_that_the_key_pair_may_not_delete_are_no_promise_that_nothing_was_touched(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = repo.marked()
    before = objects(repo.folder)
    monkeypatch.setattr(sweeping, "open_deleter", failing("snapshots", 1, "AccessDenied"))
    with pytest.raises(ConfigError, match="may not delete them"):
        sweeping.sweep(context, HERE)
    assert objects(repo.folder) == before
    monkeypatch.setattr(sweeping, "open_deleter", failing("manifests", 1, "AccessDenied"))
    with pytest.raises(PartialError, match=r"5 objects could not be deleted.*may not delete them"):
        sweeping.sweep(context, HERE)
    assert sweeping.sweep(context, HERE).counts["failed_objects"] == 0


def test_a_key_pair_that_ends_while_deleting_is_no_promise_either(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = repo.marked()

    class Ending:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            if keys[0].startswith("manifests"):
                raise ConfigError("the key pair has expired")
            return self.inner.delete(keys)

    monkeypatch.setattr(sweeping, "open_deleter", Ending)
    with pytest.raises(PartialError, match=r"expired\. \d+ objects were deleted"):
        sweeping.sweep(context, HERE)


def test_kill_between_any_two_requests_leaves_a_sound_repository_and_a_rerun_finishes(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    total = 20 if repo.spec == 1 else 15
    readable = {name: contents(repo.library, branch=name) for name in repo.library.list_branches()}
    for requests in (1, 5, 7, 12, total - 1):
        folder = tmp_path / f"killed-{requests}"
        shutil.copytree(repo.folder, folder)
        copy = Repo(folder, repo.ids)
        context = copy.marked(tuning=Tuning(delete_keys=1))
        done = [0]

        class Killed:
            def __init__(self, uri: str, done: list[int] = done, limit: int = requests) -> None:
                self.inner, self.done, self.limit = open_deleter(uri), done, limit

            def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
                if self.done[0] == self.limit:
                    raise KeyboardInterrupt
                self.done[0] += 1
                return self.inner.delete(keys)

        monkeypatch.setattr(sweeping, "open_deleter", Killed)
        with pytest.raises(KeyboardInterrupt):
            sweeping.sweep(context, HERE)
        assert {
            name: contents(copy.library, branch=name) for name in copy.library.list_branches()
        } == readable
        monkeypatch.setattr(sweeping, "open_deleter", open_deleter)
        summary = sweeping.sweep(context, HERE)
        assert summary.counts["deleted_objects"] == total
        verifying.verify(context)


def test_lost_lease_stops_the_sweep_before_anything_is_deleted(repo: Repo) -> None:
    context = repo.marked()
    before = objects(repo.folder)
    release_lease(context)
    make_lease(context.state, 60).acquire("somebody else")
    with pytest.raises(LeaseHeldError):
        sweeping.sweep(context, HERE)
    assert objects(repo.folder) == before


def test_lease_lost_during_the_sweep_stops_it_before_the_next_request(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = repo.marked(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0))

    class Overtaken:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            context.lease.release(context.plan.lease)
            make_lease(context.state, 60).acquire("somebody else")
            return self.inner.delete(keys)

    monkeypatch.setattr(sweeping, "open_deleter", Overtaken)
    with pytest.raises(LeaseHeldError):
        sweeping.sweep(context, HERE)
    assert make_report(context)["deleted"]["objects"] == 1


def test_what_names_something_is_deleted_before_what_it_names(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = repo.marked()
    kinds: list[str] = []

    class Recording:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: Sequence[str], *_asked: object) -> list[DeleteOutcome]:
            kinds.extend(dict.fromkeys(key.split("/")[0] for key in keys))
            return self.inner.delete(keys)

    monkeypatch.setattr(sweeping, "open_deleter", Recording)
    sweeping.sweep(context, HERE)
    logs = ["transactions"] if repo.spec == 1 else []
    assert kinds == ["snapshots", *logs, "manifests", "chunks"]


def test_old_mark_is_not_swept(repo: Repo) -> None:
    context = repo.marked(safety=Safety(mark_age_hours_max=0.0))
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match="a mark older than 0 s is not swept"):
        sweeping.sweep(context, HERE)
    assert objects(repo.folder) == before


def test_read_only_repository_is_refused(tmp_path: Path) -> None:  # E16
    icechunk = quiet()
    library = icechunk.Repository.create(local_storage(tmp_path), spec_version=2)
    library.set_status(icechunk.RepoStatus(availability=icechunk.RepoAvailability.read_only))
    with pytest.raises(RefusedError, match="read-only"):
        collect(Repo(tmp_path, {}).config())


def test_repository_without_refs_is_refused(v1: Repo) -> None:
    before = objects(v1.folder)
    for path in (v1.folder / "refs").glob("branch.*/ref.json"):
        path.unlink()
    with pytest.raises(RefusedError, match="no branch was found"):
        collect(v1.config())
    assert objects(v1.folder) == before


def test_candidates_outside_their_folder_are_never_deleted(repo: Repo) -> None:
    context = repo.marked()
    summary = context.folder.read_summary(listing.STEP)
    assert summary is not None
    part = listing.candidate_parts(summary, "snapshots")[0]
    task = {"name": "x", "kind": "chunks", "parts": [part.to_json()]}
    config = {
        "uri": repo.uri,
        "state_uri": context.state.uri,
        "run_uri": context.folder.uri,
        "run_id": context.plan.run_id,
        "progress": "x",
        "lease": context.plan.lease.to_json(),
        "try": StepTry.newest(context.folder.writer, "ledger").to_json(),
        "gate": {
            "lease": context.plan.lease.to_json(),
            "watch": "x",
            "trusted_seconds": 0,
            "silence_seconds_max": 60,
        },
        "attempt": 1,
        "delete_keys": 10,
        "alive": {},
    }
    with pytest.raises(FormatError, match="names an object outside chunks/"):
        sweeping.delete_parts(config, task)
