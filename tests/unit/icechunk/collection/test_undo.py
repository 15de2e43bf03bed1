"""Restore and purge."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, LeaseHeldError
from dredge.icechunk.collection.config import CollectConfig, IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    bulk_delete,
    check_limits,
    collect,
    list_candidates,
    mark,
    plan_collection,
    purge,
    release_lease,
    restore,
)
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.maintenance import open_state
from dredge.icechunk.repository import read_history
from dredge.runs.clock import utc_now
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader, store_clock
from dredge.undo import protecting, side_run
from dredge.undo.pins import active_pins, end_pin
from tests.support.icechunk import contents
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_repo import Repo, change_number
from tests.support.memory_store import MemoryStore, memory_store
from tests.support.memory_versions import OlderVersions

HERE = LocalRunner()
KINDS = ("snapshots/", "transactions/", "manifests/", "chunks/", "overwritten/")
WAYS = ("versions", "quarantine")


class Kept:
    def __init__(self, repo: Repo, way: str, name: str) -> None:
        self.ids, self.way, self.name = repo.ids, way, name
        self.uri = f"memory://{name}/repo"
        self.store: MemoryStore = memory_store(name)
        for path in sorted(path for path in repo.folder.rglob("*") if path.is_file()):
            self.store.write(f"repo/{path.relative_to(repo.folder)}", path.read_bytes())
        if way == "versions":
            self.store.older = OlderVersions()

    def config(self, **changes: Any) -> CollectConfig:
        asked: dict[str, Any] = {
            "mode": "clean",
            "dry_run": False,
            "unsafe_min_age_seconds": 0,
            "max_delete_percent": None,
        }
        return CollectConfig(
            uri=self.uri,
            **{**asked, "unsafe_grace_seconds": 0, "keep_lost_days": 0, "undo": self.way, **changes},
        )

    def run(self, **changes: Any) -> dict[str, Any]:
        return collect(self.config(**changes))

    def objects(self) -> dict[str, bytes]:
        with self.store.lock:
            found = {key.removeprefix("repo/"): data for key, (data, _) in self.store.objects.items()}
        return {key: data for key, data in found.items() if key.startswith(KINDS)}

    def library(self, folder: Path) -> Any:
        for key, (data, _) in self.store.objects.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return Repo(folder / "repo").library

    def restore(self, run_id: str, **asked: Any) -> StepSummary:
        given = {"storage": self.uri, "run": run_id, **(asked or {"all": True})}
        return restore(IcechunkRestoreConfig.from_params(given), HERE, "a person")

    def purge(self, **asked: Any) -> StepSummary:
        return purge(IcechunkPurgeConfig.from_params({"storage": self.uri, "dry_run": False, **asked}), HERE)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def kept(repo: Repo, way: str, tmp_path: Path) -> Kept:
    return Kept(repo, way, tmp_path.name)


@pytest.fixture
def kept_v1(v1: Repo, way: str, tmp_path: Path) -> Kept:
    return Kept(v1, way, tmp_path.name)


def test_everything_that_a_collection_may_delete_comes_back_byte_for_byte_and_opens(
    kept: Kept, tmp_path: Path
) -> None:
    before = kept.objects()
    report = kept.run()
    gone = before.keys() - kept.objects().keys()
    assert report["deleted"]["objects"] == len(gone) >= 15
    assert {key.partition("/")[0] for key in gone} >= {"snapshots", "manifests", "chunks"}
    done = kept.restore(report["run_id"])
    assert done.counts["restored_objects"] == len(gone)
    assert {key: data for key, data in kept.objects().items() if key in before} == before
    if "repo/repo" in kept.store.objects:  # what was released can be named again by the repo info of before
        copies = sorted(key for key in before if key.startswith("overwritten/repo."))
        kept.store.write("repo/repo", before[copies[0]])
    library = kept.library(tmp_path / "after")
    library.create_branch("back", kept.ids["7"])
    assert contents(library, branch="back")[0] > 0
    assert contents(library, branch="main")[0] > 0
    again = kept.restore(report["run_id"])
    assert again.counts["there_objects"] == len(gone)


def test_what_came_back_stays_until_its_pin_ends(kept_v1: Kept) -> None:
    before = kept_v1.objects()
    first = kept_v1.run()
    done = kept_v1.restore(first["run_id"])
    for mode in ("auto", "clean"):
        report = kept_v1.run(mode=mode)
        assert report["mode"] == ("optimized" if mode == "auto" else "clean")
        assert report["deleted"]["objects"] == 0
        assert kept_v1.objects().keys() >= before.keys()
        why = {row["why"] for row in report["rows"] if row["verdict"] == "kept"}
        assert "restored and still pinned, or contains a virtual chunk" in why
    state = open_state(kept_v1.uri)
    end_pin(state, done.run_id, utc_now())
    assert not active_pins(state, utc_now())
    assert kept_v1.run(mode="auto")["deleted"]["objects"] == done.counts["restored_objects"]


@pytest.mark.parametrize("mode", ["auto", "clean"])
def test_what_a_snapshot_that_came_back_needs_stays_with_it(kept_v1: Kept, tmp_path: Path, mode: str) -> None:
    first = kept_v1.run()
    kept_v1.restore(first["run_id"])
    grow(kept_v1, tmp_path)
    kept_v1.run(mode=mode)
    library = kept_v1.library(tmp_path / "after")
    for name in ("1", "2", "4", "6", "7"):
        library.create_branch(f"back-{name}", kept_v1.ids[name])
        assert contents(library, branch=f"back-{name}")[0] > 0
    assert contents(library, branch="main")[0] > 0


def test_sweep_leaves_what_was_pinned_since_the_mark(kept_v1: Kept) -> None:
    first = kept_v1.run()
    done = kept_v1.restore(first["run_id"])
    state = open_state(kept_v1.uri)
    (record,) = [key for key in kept_v1.store.objects if key.endswith(f"pins/{done.run_id}.json")]
    data = kept_v1.store.objects[record][0]
    end_pin(state, done.run_id, utc_now())
    run = Run.open(plan_collection(kept_v1.config()).run_uri)
    mark(run, HERE)
    list_candidates(run, HERE)
    check_limits(run)
    kept_v1.store.write(record, data)
    counts = bulk_delete(run, HERE).counts
    release_lease(run)
    assert counts["kept_objects"] == done.counts["restored_objects"]
    assert counts["deleted_objects"] == 0


def test_nothing_that_is_there_is_ever_replaced(kept_v1: Kept) -> None:
    before = kept_v1.objects()
    first = kept_v1.run()
    gone = sorted(before.keys() - kept_v1.objects().keys())
    kept_v1.store.write(f"repo/{gone[0]}", b"somebody else's")
    done = kept_v1.restore(first["run_id"])
    assert kept_v1.objects()[gone[0]] == b"somebody else's"
    assert done.counts["taken_objects"] == 1
    assert done.counts["restored_objects"] == len(gone) - 1


def test_chunks_that_no_run_listed_come_back_too(kept_v1: Kept, tmp_path: Path) -> None:
    kept_v1.run()
    grow(kept_v1, tmp_path)
    before = kept_v1.objects()
    report = kept_v1.run(mode="auto")
    assert report["mode"] == "optimized"
    gone = before.keys() - kept_v1.objects().keys()
    assert any(key.startswith("chunks/") for key in gone)
    assert kept_v1.restore(report["run_id"]).counts["restored_objects"] == len(gone)
    assert {key: kept_v1.objects()[key] for key in gone} == {key: before[key] for key in gone}
    assert kept_v1.restore(report["run_id"]).counts["there_objects"] == len(gone)


def grow(kept: Kept, folder: Path) -> None:
    library = kept.library(folder / "grown")
    for value in (100, 101):
        session = library.writable_session("main")
        change_number(session, value)
        tip = session.commit("more")
    repo = Repo(folder / "grown" / "repo")
    flushed = read_history(open_reader(repo.uri)).snapshots[tip].flushed_at
    expire(repo.uri, instant(flushed), delete_expired_branches=True, delete_expired_tags=True)
    for path in repo.folder.rglob("*"):
        key = f"repo/{path.relative_to(repo.folder)}"
        if path.is_file() and "_dredge" not in key:
            old = kept.store.objects.get(key)
            if old is None or old[0] != path.read_bytes():
                kept.store.write(key, path.read_bytes())
    for key in [key for key in kept.store.objects if key.startswith("repo/refs/")]:
        if not (folder / "grown" / key).exists():
            kept.store.remove(key)


def test_purge_lets_old_leftovers_go_but_not_what_is_pinned_or_young(
    kept_v1: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept_v1.objects()
    first = kept_v1.run()
    gone = sorted(before.keys() - kept_v1.objects().keys())
    back = kept_v1.restore(first["run_id"], prefix="manifests/", keep_days=100)
    assert kept_v1.purge().counts["purged_objects"] == 0, "it was deleted just now"
    later = timedelta(days=40)
    monkeypatch.setattr(side_run, "store_clock", lambda *place: store_clock(*place) + later)
    monkeypatch.setattr(side_run, "check_clocks", lambda *_: None)
    live = {key: data for key, data in kept_v1.objects().items() if key.startswith(KINDS)}
    purged = kept_v1.purge()
    assert purged.counts["purged_objects"] == len(gone) - back.counts["restored_objects"]
    assert kept_v1.objects() == live
    rest = kept_v1.restore(first["run_id"])
    assert rest.counts["gone_objects"] == len(gone) - back.counts["restored_objects"]


def test_run_of_another_repository_gives_nothing_back(v1: Repo, tmp_path: Path) -> None:
    one, other = Kept(v1, "quarantine", f"{tmp_path.name}-1"), Kept(v1, "quarantine", f"{tmp_path.name}-2")
    done = one.run()
    with pytest.raises(ConfigError, match=one.uri):
        other.restore(f"{one.uri}/_dredge/runs/{done['run_id']}")
    assert not active_pins(open_state(other.uri), utc_now())


def test_object_whose_copy_cannot_be_made_stays(
    v1: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(v1, "quarantine", tmp_path.name)
    before = kept.objects()
    real = protecting.open_copier

    class Full:
        def __init__(self, *place: Any) -> None:
            self._copier = real(*place)

        def copy(self, key: str, **how: Any) -> Any:
            if key.startswith("chunks/"):
                raise FormatError("not like the source")
            return self._copier.copy(key, **how)

    monkeypatch.setattr(protecting, "open_copier", Full)
    report = kept.run()
    assert report["kept"]["objects"] > 0
    assert {key for key in before if key.startswith("chunks/")} <= kept.objects().keys()


def test_restore_beside_a_collection_is_refused_and_pins_nothing(kept_v1: Kept) -> None:
    first = kept_v1.run()
    run = Run.open(plan_collection(kept_v1.config()).run_uri)
    with pytest.raises(LeaseHeldError):
        kept_v1.restore(first["run_id"])
    release_lease(run)
    assert not active_pins(open_state(kept_v1.uri), utc_now())
    with pytest.raises(ConfigError, match="not the folder of a run"):
        kept_v1.restore("g3qikmu3ee6io01hg8o0")
