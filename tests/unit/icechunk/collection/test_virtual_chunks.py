"""Files with virtual chunks are live."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dredge.errors import AlarmError, FormatError
from dredge.hashing import hash64
from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import IcechunkPurgeConfig
from dredge.icechunk.collection.pinned import _chunks_of
from dredge.icechunk.format.envelope import SPEC_BYTE
from dredge.icechunk.format.kernels import native_hashes
from dredge.icechunk.format.manifests import VIRTUAL, Manifest, named_chunks, parse_manifest
from dredge.icechunk.ids import hash_of
from dredge.icechunk.maintenance import open_state
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader, store_clock
from dredge.undo.alarms import acknowledge_alarms, read_alarms
from dredge.undo.pins import end_pin, read_pins
from tests.support.icechunk_views import Views

MANY = 1200
"""So many locations the library compresses on spec 2."""


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Views]:
    return lambda **how: Views(tmp_path / "repo", request.param, **how)


@pytest.mark.parametrize(
    ("spec", "count", "container"), [(1, 3, ""), (1, 3, "own"), (2, 3, ""), (2, 3, "own"), (2, MANY, "own")]
)
def test_chunks_that_only_virtual_references_name_stay_readable(
    tmp_path: Path, spec: int, count: int, container: str
) -> None:
    views = Views(tmp_path / "repo", spec, count=count, container=container)
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
    from dredge.icechunk.collection import index, run, save_report

    views = make()
    chunks = views.write("source")
    with monkeypatch.context() as earlier:
        earlier.setattr(index, "FORMAT", index.FORMAT - 1)
        earlier.setattr(save_report, "RunState", partial(run.RunState, format=run.STATE_FORMAT - 1))
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
    real, late_views = step.look_again, [lambda: views.view("view", chunks)]

    def late(*given: Any) -> Any:
        if late_views:
            late_views.pop()()
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
    acknowledge_alarms(open_state(views.uri), views.uri, "seen")
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
        tables = [
            array.buffer.table_at(place)
            for array in manifest.arrays
            for place in array.places[array.kind == VIRTUAL].tolist()
        ]
        compressed |= any(table.text(5) is None for table in tables)
        assert fast.virtual.tolist() == sorted(map(hash_of, spelled))
        found |= {*spelled}
    assert found == {*chunks}
    assert compressed is (count == MANY and data[SPEC_BYTE] == 2)


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


KINDS = ("snapshots", "transactions", "manifests")


class Side(Views):
    gone: dict[str, str]

    def lose_branch(self) -> None:
        self.library.create_branch("side", self.tip())
        before = self.objects()
        self.write("side", "side")
        self.library.delete_branch("side")
        after = self.objects()
        self.gone = {kind: min(after[kind] - before[kind]) for kind in (*KINDS, "chunks")}
        self.write("later")
        self.expire_before(self.tip())

    def view_gone(self, kind: str) -> list[int]:
        self.view("view", [f"{kind}/{self.gone[kind]}"])
        return self.numbers("view")

    @property
    def there(self) -> set[str]:
        return {kind for kind, name in self.gone.items() if (self.folder / kind / name).exists()}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def make_side(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Side]:
    def made(**how: str) -> Side:
        return Side(tmp_path / "repo", request.param, **{"count": 1, "container": "own", "inside": "", **how})

    return made


# What names something else stays with what it names.
STAYS = {
    "snapshots": {*KINDS, "chunks"},
    "transactions": {"transactions"},
    "manifests": {"manifests", "chunks"},
}
BESIDE = {
    "snapshots": {"transactions"},
    "transactions": {"snapshots", "manifests", "chunks"},
    "manifests": set(),
}
"""A snapshot and its log have the same id."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("mode", "inside", "spelled"), [("clean", "{}/", ""), ("optimized", "", "{}/"), ("clean", "", "{}/./")]
)
def test_file_in_which_a_virtual_chunk_lies_stays(
    make_side: Callable[..., Side], mode: str, kind: str, inside: str, spelled: str
) -> None:
    side = make_side(inside=inside.format(kind))
    side.write("source")
    side.collect(keep_lost_days=0)
    side.lose_branch()
    side.view("view", [spelled.format(kind) + side.gone[kind]])
    numbers = side.numbers("view")
    for _ in range(2):
        assert side.mode(keep_lost_days=0, clean_every_days=0 if mode == "clean" else 7) == mode
        assert side.there == STAYS[kind] | BESIDE[kind]
        assert side.numbers("view") == numbers
    side.expire_before(side.drop("view"))
    side.collect(keep_lost_days=0)
    assert side.there == set()


@pytest.mark.parametrize("kind", KINDS)
def test_file_that_a_commit_since_the_mark_reads_stays(
    make_side: Callable[..., Side], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:

    from dredge.icechunk.collection import bulk_delete as step

    side, real, numbers = make_side(), step.look_again, list[int]()
    side.lose_branch()

    def late(*given: Any) -> Any:
        if not numbers:
            numbers.extend(side.view_gone(kind))
        return real(*given)

    monkeypatch.setattr(step, "look_again", late)
    report = side.collect(keep_lost_days=0)
    assert kind in side.there
    assert side.numbers("view") == numbers
    assert report["kinds"][kind]["kept_objects"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_reference_to_a_file_that_a_run_deleted_is_an_alarm_and_its_copy_stays(
    make_side: Callable[..., Side], mode: str, kind: str
) -> None:
    side = make_side()
    side.lose_branch()
    side.collect(keep_lost_days=0, undo="quarantine")
    assert side.there == set()
    side.view("view", [f"{kind}/{side.gone[kind]}"])
    with pytest.raises(AlarmError):
        side.collect(keep_lost_days=0, mode="auto" if mode == "optimized" else mode)
    numbers = side.numbers("view")
    (alarm,) = read_alarms(side.state)
    assert dict(alarm.outcomes).keys() == {"restored"}
    acknowledge_alarms(open_state(side.uri), side.uri, "seen")
    copies = {path for path in (side.folder / "_dredge/runs").glob("*/quarantine/**/*") if path.is_file()}
    for path in copies:
        os.utime(path, (0, 0))
    for pin in read_pins(side.state):
        end_pin(side.state, pin.pin_id, store_clock(side.state, ""))
    (folder,) = (side.folder / "_dredge/runs").glob("*/quarantine")
    config = IcechunkPurgeConfig(
        repository=side.uri, older_than_days=1, dry_run=False, run=folder.parent.name
    )
    steps.purge(config, LocalRunner())
    assert (folder / kind / side.gone[kind]).exists()
    assert not all(path.exists() for path in copies)
    side.collect(keep_lost_days=0)
    assert side.numbers("view") == numbers


def test_old_repo_info_in_which_a_virtual_chunk_lies_stays(tmp_path: Path) -> None:
    side = Side(tmp_path / "repo", 2, count=1, container="own", inside="")
    side.write("source")
    names = [f"repo.315{number:011}.{name}" for number, name in enumerate(["0" * 20, "Z" * 19 + "G"])]
    for name in names:
        path = side.folder / "overwritten" / name
        path.write_bytes(b"an old repo info")
        os.utime(path, (0, 0))
    side.view("view", [f"overwritten/{names[0]}"])
    numbers = side.numbers("view")
    report = side.collect(keep_lost_days=0, overwritten_min_age_hours=0)
    figures = report["kinds"]["overwritten"]
    assert (figures["candidates_objects"], figures["deleted_objects"]) == (1, 1)
    assert side.numbers("view") == numbers


def test_chunk_that_a_failed_sweep_deleted_and_that_is_named_again_is_an_alarm_of_the_next_run(
    make_side: Callable[..., Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    side = make_side()
    (chunk,) = side.write("source")
    side.collect(keep_lost_days=0)
    side.expire_before(side.drop("source"))
    with monkeypatch.context() as failing:
        failing.setattr(steps, "verify", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            side.mode(keep_lost_days=0, undo="quarantine")
    assert chunk not in side.objects()["chunks"]
    side.view("view", [f"chunks/{chunk}"])
    with pytest.raises(AlarmError):
        side.mode(keep_lost_days=0)
    assert side.numbers("view") == [1]


def test_record_of_a_deletion_of_another_format_is_named(make_side: Callable[..., Side]) -> None:
    side = make_side()
    side.lose_branch()
    side.collect(keep_lost_days=0)
    (record,) = (side.folder / "_dredge/deletions").glob("*.json")
    value = json.loads(record.read_bytes())
    assert not any("records" in text for text in side.collect(keep_lost_days=0)["warnings"])
    record.write_text(json.dumps(value | {"format": 1}))
    assert any(record.stem in text for text in side.collect(keep_lost_days=0)["warnings"])


@pytest.mark.parametrize("kind", ["chunks", "manifests"])
@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_file_that_is_the_prefix_of_a_stored_container_stays(
    make_side: Callable[..., Side], kind: str, mode: str
) -> None:
    side = make_side()
    side.write("source")
    side.collect(keep_lost_days=0)
    side.lose_branch()
    side.inside = f"{kind}/{side.gone[kind]}/"
    side.library.save_config()
    side.view("view", [""])
    numbers = side.numbers("view")
    changes = {"keep_lost_days": 0, "clean_every_days": 0 if mode == "clean" else 7}
    assert side.mode(**changes) == mode
    assert side.numbers("view") == numbers
