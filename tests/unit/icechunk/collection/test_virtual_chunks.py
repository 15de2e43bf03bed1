"""Virtual chunks that lie in the repository itself: what their locations name stays, wherever native chunks do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dredge.errors import AlarmError, FormatError
from dredge.hashing import hash64
from dredge.icechunk.collection.pinned import _chunks_of
from dredge.icechunk.collection.undo import acknowledge_alarms
from dredge.icechunk.format.kernels import native_hashes
from dredge.icechunk.format.manifests import VIRTUAL, Manifest, named_chunks, parse_manifest
from dredge.icechunk.ids import hash_of
from dredge.storage import open_reader
from dredge.undo.alarms import read_alarms
from tests.support.icechunk_views import Views

MANY = 1200
"""So many locations the library compresses on spec 2."""


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
    from dredge.icechunk.collection import index, state

    views = make()
    chunks = views.write("source")
    with monkeypatch.context() as earlier:
        earlier.setattr(index, "FORMAT", index.FORMAT - 1)
        earlier.setattr(state.RunState.__init__, "__kwdefaults__", {"format": state.FORMAT - 1})
        views.collect(keep_lost_days=0)
    views.expire_before(views.view("view", chunks, without="source"))
    assert views.mode(keep_lost_days=0) == "clean"
    assert views.numbers("view") == views.written


def test_commit_since_the_mark_that_sees_doomed_chunks_keeps_them(
    make: Callable[..., Views], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dredge.icechunk.collection import bulk_delete as step

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
    reader, needed = open_reader(views.uri), hash64(pa.array([f"chunks/{name}" for name in chunks]))
    for name in views.objects()["manifests"]:
        assert np.isin(needed, _chunks_of(reader.get, f"manifests/{name}")).all()


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
    views.array(session, "late")[:] = np.arange(views.places) + 1
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


def test_kept_manifest_with_an_unreadable_location_keeps_its_native_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> list[str]:
        raise FormatError("a damaged location")

    monkeypatch.setattr(Manifest, "virtual_ids", unreadable)
    views = Views(tmp_path / "repo", 2)
    views.write("source")
    reader = open_reader(views.uri)
    assert all(len(_chunks_of(reader.get, f"manifests/{name}")) for name in views.objects()["manifests"])
