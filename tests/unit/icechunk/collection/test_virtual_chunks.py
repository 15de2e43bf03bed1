"""Virtual chunks that lie in the repository itself: what their locations name stays, wherever native chunks do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dredge.errors import AlarmError, FormatError, RefusedError
from dredge.icechunk.collection.by_library import collect_by_library
from dredge.icechunk.collection.pinned import _chunks_of
from dredge.icechunk.collection.undo import acknowledge_alarms
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.kernels import native_hashes
from dredge.icechunk.format.manifests import VIRTUAL, named_chunks, parse_manifest
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.ids import hash_of
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from dredge.undo.alarms import read_alarms
from tests.support.icechunk import local_storage, quiet
from tests.support.icechunk_past import Past

MANY = 1200
"""So many locations the library compresses on spec 2."""


class Views(Past):
    """A repository whose arrays may lie in chunks that other arrays wrote."""

    def __init__(self, folder: Path, spec: int, count: int = 3, container: str = "") -> None:
        self.places, self.container = count, container
        super().__init__(folder, spec)

    @property
    def prefix(self) -> str:
        return f"file://{self.folder}/chunks/"

    def _config(self) -> Any:  # type: ignore[override]
        icechunk = quiet()
        config = super()._config()
        store = icechunk.local_filesystem_store(f"{self.folder}/chunks")
        named = {"name": self.container} if self.container else {}
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(self.prefix, store, **named))
        return config

    @property
    def library(self) -> Any:
        """The repository as Icechunk sees it, which may read its own folder."""
        icechunk = quiet()
        access = {self.prefix: icechunk.credentials.LocalFileSystemAccess}
        return icechunk.Repository.open(
            local_storage(self.folder), config=self._config(), authorize_virtual_chunk_access=access
        )

    def write(self, name: str, branch: str = "main") -> list[str]:
        """Write an array of native chunks; gives their ids."""
        before = self.objects()["chunks"]
        session = self.library.writable_session(branch)
        self._array(session, name)[:] = np.arange(self.places) + 1
        session.commit(f"write {name}")
        return sorted(self.objects()["chunks"] - before)

    def view(self, name: str, chunks: list[str], without: str = "", branch: str = "main") -> str:
        """Commit an array whose chunks are those of others; `without` one that is deleted at once."""
        import zarr

        session = self.library.writable_session(branch)
        self._array(session, name)
        for row, chunk in enumerate(chunks):
            place = f"vcc://{self.container}/{chunk}" if self.container else self.prefix + chunk
            session.store.set_virtual_ref(f"{name}/c/{row}", place, offset=0, length=4)
        if without:
            del zarr.open_group(session.store)[without]
        return str(session.commit(f"view {name}"))

    def drop(self, name: str) -> str:
        """Commit without an array."""
        import zarr

        session = self.library.writable_session("main")
        del zarr.open_group(session.store)[name]
        return str(session.commit(f"drop {name}"))

    def _array(self, session: Any, name: str) -> Any:
        import zarr

        return zarr.create_array(
            session.store, name=name, shape=(self.places,), chunks=(1,), dtype="i4", compressors=None
        )

    def numbers(self, name: str) -> list[int]:
        """Read an array of main whole."""
        import zarr

        store = self.library.readonly_session("main").store
        return sorted(int(value) for value in zarr.open_array(store, path=name, mode="r")[:])

    @property
    def written(self) -> list[int]:
        return list(range(1, self.places + 1))

    def expire_before(self, snapshot: str) -> None:
        expire(self.uri, instant(read_history(open_reader(self.uri)).snapshots[snapshot].flushed_at))

    def mode(self, **changes: Any) -> str:
        """Collect on what an earlier run left, when that is possible; gives how it was done."""
        return str(self.collect(mode="auto", **changes)["mode"])


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Views]:
    return lambda **how: Views(tmp_path / "repo", request.param, **how)


@pytest.mark.parametrize("container", ["", "own"])
@pytest.mark.parametrize("count", [3, MANY])
def test_chunks_that_only_virtual_references_name_stay_readable(
    make: Callable[..., Views], container: str, count: int
) -> None:
    views = make(count=count, container=container)
    chunks = views.write("source")
    views.expire_before(views.view("view", chunks, without="source"))
    report = views.collect(keep_lost_days=0)
    assert report["deleted"]["objects"] > 0
    assert views.objects()["chunks"] == set(chunks)
    assert views.numbers("view") == views.written
    views.expire_before(views.drop("view"))
    views.collect(keep_lost_days=0)
    assert views.objects()["chunks"] == set()


def test_optimized_runs_keep_them_too(make: Callable[..., Views]) -> None:
    views = make()
    chunks = views.write("source")
    views.collect(keep_lost_days=0)
    views.expire_before(views.view("view", chunks, without="source"))
    assert views.mode(keep_lost_days=0) == "optimized"
    assert views.numbers("view") == views.written
    views.write("other")
    assert views.mode(keep_lost_days=0) == "optimized"
    assert views.numbers("view") == views.written


def test_index_of_an_earlier_version_is_not_built_upon(
    make: Callable[..., Views], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dredge.icechunk.collection import index
    from dredge.icechunk.collection.state import model

    views = make()
    chunks = views.write("source")
    with monkeypatch.context() as earlier:
        earlier.setattr(index, "FORMAT", index.FORMAT - 1)
        earlier.setattr(model.RunState.__init__, "__kwdefaults__", {"format": model.FORMAT - 1})
        views.collect(keep_lost_days=0)
    views.expire_before(views.view("view", chunks, without="source"))
    assert views.mode(keep_lost_days=0) == "clean"
    assert views.numbers("view") == views.written


def test_commit_since_the_mark_that_sees_doomed_chunks_keeps_them(
    make: Callable[..., Views], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dredge.icechunk.collection.bulk_delete import step

    views = make()
    chunks = views.write("source")
    views.expire_before(views.drop("source"))
    real = step.look_again

    def late(*given: Any) -> Any:
        views.view("view", chunks)
        monkeypatch.setattr(step, "look_again", real)
        return real(*given)

    monkeypatch.setattr(step, "look_again", late)
    report = views.collect(keep_lost_days=0)
    assert report["deleted"]["objects"] > 0
    assert views.numbers("view") == views.written


def test_manifest_that_came_back_needs_them(make: Callable[..., Views]) -> None:
    views = make()
    chunks = views.write("source")
    views.view("view", chunks, without="source")
    keys = {f"manifests/{name}" for name in views.objects()["manifests"]}
    reader = open_reader(views.uri)
    assert {len(_chunks_of(reader.get, key)) for key in keys} == {views.places}


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_reference_to_a_chunk_that_a_run_deleted_is_an_alarm(make: Callable[..., Views], mode: str) -> None:
    views = make()
    chunks = views.write("source")
    views.expire_before(views.drop("source"))
    deleted = views.collect(keep_lost_days=0, undo="quarantine")
    assert views.objects()["chunks"] == set()
    views.view("view", chunks)
    with pytest.raises(AlarmError):
        views.collect(keep_lost_days=0, mode="auto" if mode == "optimized" else mode)
    assert views.numbers("view") == views.written
    (alarm,) = read_alarms(views.state)
    assert dict(alarm.outcomes) == {"restored": len(chunks)}
    acknowledge_alarms(views.uri, "seen")
    assert views.collect(keep_lost_days=0)["outcome"] == "success"
    assert deleted["deleted"]["objects"] > len(chunks)


def test_late_commit_whose_chunks_an_earlier_run_deleted_is_an_alarm_of_an_optimized_run(
    make: Callable[..., Views], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dredge.icechunk.collection.list_candidates import listing

    # As in a store whose tags are MD5s, which then is asked for no chunk.
    monkeypatch.setattr(listing, "unproved", lambda *_: {})
    views = make()
    views.write("source")
    session = views.library.writable_session("main")
    views._array(session, "late")[:] = np.arange(views.places) + 1
    views.collect(keep_lost_days=0, undo="quarantine")
    session.commit("late")
    with pytest.raises(AlarmError):
        views.mode(keep_lost_days=0)
    assert views.numbers("late") == views.written


def test_chunks_of_another_repository_are_no_damage_here(make: Callable[..., Views], tmp_path: Path) -> None:
    views = make()
    views.write("source")
    views.view("view", ["0" * 20, "Z" * 19 + "G"])
    for _ in range(2):
        assert views.mode(keep_lost_days=0)
    assert views.collect(keep_lost_days=0)["outcome"] == "success"


def test_reference_to_a_metadata_file_stops_the_run(make: Callable[..., Views]) -> None:
    views = make()
    views.write("source")
    views.container = "own"
    views.view("view", [f"../manifests/{min(views.objects()['manifests'])}"])
    before = views.objects()
    with pytest.raises(FormatError):
        views.collect(keep_lost_days=0)
    assert views.objects() == before


@pytest.mark.parametrize("count", [3, MANY])
def test_both_readers_find_the_same_ids(make: Callable[..., Views], count: int) -> None:
    views = make(count=count)
    chunks = views.write("source")
    views.view("view", chunks, without="source")
    found, compressed = set[str](), False
    for path in (views.folder / "manifests").iterdir():
        data = path.read_bytes()
        fast, slow = named_chunks(data, path.name), named_chunks(data, path.name, loop=native_hashes)
        assert all(map(np.array_equal, fast, slow))
        manifest = parse_manifest(data, path.name)
        spelled = manifest.virtual_ids(path.name)
        places = [(array, row) for array in manifest.arrays for row in np.flatnonzero(array.kind == VIRTUAL)]
        compressed |= any(array.location(row) is None for array, row in places)
        assert fast.virtual.tolist() == sorted(map(hash_of, spelled))
        found |= {*spelled}
    assert found == {*chunks}
    assert compressed is (count == MANY and manifest.spec_version == 2)


@pytest.mark.parametrize("spec", [1, 2])
def test_library_is_not_let_at_chunks_that_only_virtual_references_name(tmp_path: Path, spec: int) -> None:
    views = Views(tmp_path / "repo", spec)
    chunks = views.write("source")
    views.expire_before(views.view("view", chunks, without="source"))
    before = views.objects()
    with pytest.raises(RefusedError):
        collect_by_library(views.config(undo="off"))
    after = views.objects()
    assert all(after[kind] == before[kind] for kind in ("snapshots", "manifests", "chunks"))
    assert views.numbers("view") == views.written


def test_kept_manifest_with_an_unreadable_location_keeps_its_native_chunks(tmp_path: Path) -> None:
    views = Views(tmp_path / "repo", 2, container="own")
    views.write("source")
    inside = min(views.objects()["manifests"])
    session = views.library.writable_session("main")
    views._array(session, "mixed")[:] = np.arange(views.places) + 1
    session.store.set_virtual_ref("mixed/c/0", f"vcc://own/../manifests/{inside}", offset=0, length=4)
    session.commit("mixed")
    reader = open_reader(views.uri)
    assert all(len(_chunks_of(reader.get, f"manifests/{name}")) for name in views.objects()["manifests"])
