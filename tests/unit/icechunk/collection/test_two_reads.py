"""Two different reads of a snapshot keep the manifests of both."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import FormatError, OvertakenError
from dredge.icechunk.collection import save_report as save_step
from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.mark import step as mark_step
from dredge.icechunk.collection.mark.snapshots import add_snapshots
from dredge.icechunk.collection.own_files import keep_small
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect, mark, release_lease, to_its_end
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import decode_id
from dredge.icechunk.repository import read_history
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from dredge.xid import new_descending_xid
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo, commit, optimized

AN_HOUR = timedelta(hours=1)


@pytest.fixture
def collected(v1: Repo) -> Repo:
    commit(v1, 100)
    collect(v1.config(mode="auto"))
    return v1


def tip_of(repo: Repo) -> Path:
    return repo.folder / "snapshots" / read_history(open_reader(repo.uri)).branches["main"]


def refused(repo: Repo, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        collect(repo.config(mode="auto"))


def says_so(report: dict[str, Any]) -> bool:
    return any("manifests of both are kept" in warning for warning in report["warnings"])


def test_what_either_read_of_a_snapshot_names_is_kept_by_the_runs_after_the_one_that_noticed(
    collected: Repo,
) -> None:
    place = tip_of(collected)
    sound, before = place.read_bytes(), objects(collected.folder)
    name_another_manifest(place)
    refused(collected, "has other manifests than in an earlier run")
    report = collect(collected.config(mode="auto"))
    assert report["mode"] == "clean"
    assert says_so(report)
    assert objects(collected.folder)["manifests"] == before["manifests"]
    assert objects(collected.folder)["chunks"] == before["chunks"]
    place.write_bytes(sound)
    assert contents(collected.library, branch="main")


def test_every_report_says_that_two_reads_differ_until_a_person_has_all_read_again(collected: Repo) -> None:
    place = tip_of(collected)
    sound, before = place.read_bytes(), objects(collected.folder)
    name_another_manifest(place)
    refused(collected, "has other manifests than in an earlier run")
    collect(collected.config(mode="auto"))
    assert says_so(collect(collected.config(mode="auto")))
    place.write_bytes(sound)
    compacting = collect(collected.config(mode="auto", tuning=Tuning(index_parts_max=0)))
    assert compacting["mode"] == "optimized"  # the file names nothing that the two reads did not
    assert says_so(compacting)
    assert says_so(collect(collected.config()))
    shutil.rmtree(collected.folder / "_dredge" / "index")
    assert not says_so(collect(collected.config()))
    assert not says_so(collect(collected.config(mode="auto")))
    assert objects(collected.folder)["manifests"] == before["manifests"]
    assert contents(collected.library, branch="main")[0] == 100


def test_read_that_names_what_neither_of_two_reads_named_is_refused(collected: Repo) -> None:
    place = tip_of(collected)
    name_another_manifest(place)
    refused(collected, "has other manifests than in an earlier run")
    collect(collected.config(mode="auto"))
    name_no_manifest(place)
    refused(collected, "has other manifests than in an earlier run")


def test_damaged_first_read_of_a_snapshot_is_forgotten(v1: Repo) -> None:
    commit(v1, 100)
    place = tip_of(v1)
    sound = place.read_bytes()
    name_no_manifest(place)
    refused(v1, "a live file is missing: .*manifests/")
    place.write_bytes(sound)
    before = contents(v1.library, branch="main")
    assert collect(v1.config(mode="auto"))["warnings"] == []
    assert contents(v1.library, branch="main") == before


def test_manifest_that_only_one_of_two_reads_names_stops_runs_until_a_person_has_all_read_again(
    collected: Repo,
) -> None:
    place = tip_of(collected)
    sound = place.read_bytes()
    name_no_manifest(place)
    refused(collected, "has other manifests than in an earlier run")
    place.write_bytes(sound)
    refused(collected, "a live file is missing: .*remove the folder _dredge/index")
    shutil.rmtree(collected.folder / "_dredge" / "index")
    assert not says_so(collect(collected.config()))
    assert contents(collected.library, branch="main")[0] == 100


@pytest.mark.parametrize("agrees", ["first", "second"])
@pytest.mark.parametrize("is_killed", [True, False], ids=["a new run", "a later try"])
def test_what_either_read_names_is_kept_also_where_the_run_that_noticed_told_nobody(
    collected: Repo, is_killed: bool, agrees: str
) -> None:
    place = tip_of(collected)
    sound, before = place.read_bytes(), objects(collected.folder)
    name_another_manifest(place)
    damaged = place.read_bytes()
    shutil.rmtree(collected.folder / "_dredge")
    collect(collected.config(unsafe_min_age_seconds=10**6))
    place.write_bytes(sound)
    run = optimized(collected)
    with pytest.raises(FormatError):
        mark(run, LocalRunner())
    if is_killed:
        release_lease(run)
        run = optimized(collected)
    place.write_bytes(damaged if agrees == "first" else sound)
    assert says_so(to_its_end(run, LocalRunner()))
    assert objects(collected.folder)["manifests"] == before["manifests"]
    assert says_so(collect(collected.config(mode="auto")))


def test_what_a_run_read_that_noticed_damage_elsewhere_is_forgotten(collected: Repo) -> None:
    known = tip_of(collected)
    commit(collected, 101)
    new = tip_of(collected)
    sound = {known: known.read_bytes(), new: new.read_bytes()}
    name_another_manifest(known)
    name_no_manifest(new)
    refused(collected, "has other manifests than in an earlier run")
    for place, data in sound.items():
        place.write_bytes(data)
    assert says_so(collect(collected.config(mode="auto")))
    assert contents(collected.library, branch="main")[0] == 101


def test_two_runs_that_read_a_new_snapshot_differently_say_so(collected: Repo) -> None:
    commit(collected, 101)
    place = tip_of(collected)
    sound, before = place.read_bytes(), objects(collected.folder)
    name_another_manifest(place)
    mark(run := optimized(collected), LocalRunner())
    release_lease(run)
    place.write_bytes(sound)
    assert says_so(collect(collected.config(mode="auto")))
    assert objects(collected.folder)["manifests"] == before["manifests"]
    assert says_so(collect(collected.config(mode="auto")))


@pytest.mark.parametrize("compacts", [True, False], ids=["compacted", "not compacted"])
@pytest.mark.parametrize("is_try", [True, False], ids=["an earlier try", "an earlier run"])
def test_read_that_is_noted_after_the_mark_that_later_runs_build_on_is_compared(
    collected: Repo, monkeypatch: pytest.MonkeyPatch, is_try: bool, compacts: bool
) -> None:
    commit(collected, 101)
    place = tip_of(collected)
    sound, before = place.read_bytes(), objects(collected.folder)
    young: dict[str, Any] = {
        "unsafe_min_age_seconds": 10**6,
        "tuning": Tuning(index_parts_max=0 if compacts else 64),
    }

    def asleep(run: Run, *read: Any) -> None:
        def awake(*given: Any) -> None:
            add_snapshots(run, *read)
            keep_small(*given)

        monkeypatch.setattr(mark_step, "add_snapshots", add_snapshots)
        monkeypatch.setattr(save_step, "keep_small", awake)
        name_another_manifest(place)
        if not is_try:
            release_lease(run)
            run = optimized(collected, **young)
        assert not says_so(to_its_end(run, LocalRunner()))

    monkeypatch.setattr(steps, "new_descending_xid", lambda now: new_descending_xid(now - AN_HOUR))
    late = optimized(collected, **young)
    monkeypatch.undo()
    monkeypatch.setattr(mark_step, "add_snapshots", asleep)
    with suppress(OvertakenError):
        mark(late, LocalRunner())
    monkeypatch.undo()
    assert says_so(collect(collected.config(mode="auto")))
    assert objects(collected.folder)["manifests"] == before["manifests"]
    place.write_bytes(sound)
    assert contents(collected.library, branch="main")[0] == 101


def name_another_manifest(place: Path) -> None:
    refs = {
        path: {info.id: info.refs for info in parse_snapshot(path.read_bytes(), path.name).manifests}
        for path in sorted(place.parent.iterdir())
    }
    own = refs.pop(place)
    others = {manifest: count for each in refs.values() for manifest, count in each.items()}
    pairs = [(one, other) for one in own for other in others if own[one] == others[other]]
    one, other = min(pair for pair in pairs if pair[0] not in others and pair[1] not in own)
    opened = open_file(place.read_bytes(), place.name, FileType.SNAPSHOT)
    place.write_bytes(close_file(opened.header, opened.body.replace(decode_id(one), decode_id(other))))


def name_no_manifest(place: Path) -> None:
    opened = open_file(place.read_bytes(), place.name, FileType.SNAPSHOT)
    named = decode_id(parse_snapshot(place.read_bytes(), place.name).manifests[0].id)
    place.write_bytes(
        close_file(opened.header, opened.body.replace(named, bytes([named[0] ^ 1]) + named[1:]))
    )
