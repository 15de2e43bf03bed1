"""Objects that virtual chunks of another repository point to are kept."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import AlarmError, DredgeError
from dredge.icechunk.collection.config import IcechunkPurgeConfig
from dredge.icechunk.collection.pinned import ids_in_referring
from dredge.icechunk.collection.steps import purge
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.maintenance import open_state
from dredge.runs.clock import utc_now
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.undo.alarms import acknowledge_alarms, read_alarms
from dredge.undo.pins import end_pin, read_pins
from tests.support.icechunk import local_storage, objects, quiet
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_waiting import let_wait


def refer(folder: Path, chunk: Path, spec: int = 2) -> Repo:
    """Create a repository whose only array is a virtual chunk."""
    import zarr

    icechunk: Any = quiet()
    prefix = f"file://{chunk.parent}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(chunk.parent)))
    )
    repo = icechunk.Repository.create(local_storage(folder), config=config, spec_version=spec)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="seen", shape=(1,), chunks=(1,), dtype="i4")
    session.store.set_virtual_ref("seen/c/0", f"{prefix}{chunk.name}", offset=0, length=4)
    session.commit("refers")
    return Repo(folder)


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_a_chunk_that_another_repository_reads_is_kept(repo: Repo, mode: str, tmp_path: Path) -> None:
    chunks = objects(repo.folder)["chunks"]
    doomed = sorted(chunks - repo.collected(tmp_path)["chunks"])
    other = refer(tmp_path / "other", repo.folder / "chunks" / doomed[0])

    report = repo.collect(mode=mode, referring_repositories=other.uri)
    assert report["kept"]["objects"] == 0, "the mark heeds it, not only the look before deleting"
    assert objects(repo.folder)["chunks"] == chunks - {*doomed[1:]}


def test_a_reference_made_after_the_mark_is_heeded(repo: Repo, tmp_path: Path) -> None:
    chunks = objects(repo.folder)["chunks"]
    doomed = sorted(chunks - repo.collected(tmp_path)["chunks"])
    other = refer(tmp_path / "other", repo.folder / "chunks" / "none")
    run = repo.guarded(referring_repositories=other.uri)
    refer(tmp_path / "later", repo.folder / "chunks" / doomed[0])
    (tmp_path / "other").rename(tmp_path / "before")
    (tmp_path / "later").rename(tmp_path / "other")
    repo.sweep(run)
    assert objects(repo.folder)["chunks"] == chunks - {*doomed[1:]}


def test_a_reference_made_within_the_grace_is_heeded(repo: Repo, tmp_path: Path) -> None:
    """A session that knew the chunk before its release has the whole grace for its commit."""
    before = objects(repo.folder)
    doomed = sorted(before["chunks"] - repo.collected(tmp_path)["chunks"])
    other = refer(tmp_path / "other", repo.folder / "chunks" / "none")
    settings = {"unsafe_grace_seconds": None, "referring_repositories": other.uri}
    repo.collect(**settings)
    assert objects(repo.folder) == before
    (tmp_path / "other").rename(tmp_path / "before")
    refer(tmp_path / "other", repo.folder / "chunks" / doomed[0])
    let_wait(repo.folder, 99)
    assert repo.collect(**settings)["outcome"] == "success"
    assert objects(repo.folder)["chunks"] == before["chunks"] - {*doomed[1:]}


def test_a_referring_repository_that_cannot_be_read_stops_the_run(v2: Repo, tmp_path: Path) -> None:
    before = objects(v2.folder)
    with pytest.raises(DredgeError):
        v2.collect(referring_repositories=f"file://{tmp_path}/none")
    assert objects(v2.folder) == before


def doomed_in(repo: Repo, folder: Path) -> str:
    """A chunk that a collection would delete."""
    return min(objects(repo.folder)["chunks"] - repo.collected(folder)["chunks"])


@pytest.mark.parametrize("spec", [1, 2])
def test_a_snapshot_that_was_released_there_still_counts(spec: int, v2: Repo, tmp_path: Path) -> None:
    """Its expiration can be undone, and refs of spec 1 beside a repo info may reach it."""
    import zarr

    chunk = doomed_in(v2, tmp_path)
    other = refer(tmp_path / "other", v2.folder / "chunks" / chunk, spec)
    session = other.library.writable_session("main")
    zarr.group(session.store, overwrite=True)
    session.commit("without it")
    other.library.writable_session("main").commit("tip", allow_empty=True)
    expire(other.uri, datetime.now(UTC))
    v2.collect(referring_repositories=other.uri)
    assert chunk in objects(v2.folder)["chunks"]


@pytest.mark.parametrize("more", range(4))  # zeros behind the location
def test_a_damaged_manifest_there_stops_the_run_or_names_the_chunk(more: int, tmp_path: Path) -> None:
    chunk = "3R7FJN4YQQ7RAN7YXZ8G"
    other = refer(tmp_path / "other", tmp_path / ("repo" + "x" * more) / "chunks" / chunk)
    (path,) = (other.folder / "manifests").iterdir()
    opened = open_file(path.read_bytes(), path.name, FileType.MANIFEST)
    for bit in range(opened.body.index(b"file:") * 8):
        body = bytearray(opened.body)
        body[bit // 8] ^= 1 << bit % 8
        path.write_bytes(close_file(opened.header, bytes(body)))
        try:
            found = ids_in_referring((other.uri,))
        except DredgeError:
            continue
        assert found == {chunk}, f"bit {bit}"


@pytest.mark.parametrize("spelled", ["{0}/", " {0} ,{0}", "{1}"])
def test_a_repository_is_found_in_any_spelling(spelled: str, v2: Repo, tmp_path: Path) -> None:
    chunk = doomed_in(v2, tmp_path)
    other = refer(tmp_path / "other", v2.folder / "chunks" / chunk)
    v2.collect(referring_repositories=spelled.format(other.uri, other.folder))
    assert chunk in objects(v2.folder)["chunks"]


def test_a_repository_may_refer_to_itself(v2: Repo, tmp_path: Path) -> None:
    after = v2.collected(tmp_path)
    v2.collect(referring_repositories=v2.uri)
    assert objects(v2.folder) == after


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_a_deleted_chunk_that_another_repository_reads_comes_back(
    repo: Repo, mode: str, tmp_path: Path
) -> None:
    chunk = doomed_in(repo, tmp_path)
    repo.collect(undo="quarantine")
    assert chunk not in objects(repo.folder)["chunks"]
    other = refer(tmp_path / "other", repo.folder / "chunks" / chunk)
    with pytest.raises(AlarmError):
        repo.collect(mode=mode, referring_repositories=other.uri)
    assert chunk in objects(repo.folder)["chunks"]
    (alarm,) = read_alarms(open_state(repo.uri))
    assert dict(alarm.outcomes) == {"restored": 1}
    acknowledge_alarms(open_state(repo.uri), repo.uri, "seen")
    assert repo.collect(mode=mode, referring_repositories=other.uri)["outcome"] == "success"


def test_copies_of_chunks_that_another_repository_reads_are_not_purged(v2: Repo, tmp_path: Path) -> None:
    chunk = doomed_in(v2, tmp_path)
    other = refer(tmp_path / "other", v2.folder / "chunks" / "none")
    run_id = v2.collect(undo="quarantine", referring_repositories=other.uri)["run_id"]
    copies = {path.name: path for path in (v2.folder / "_dredge/runs").glob("*/quarantine/chunks/*")}
    for path in (v2.folder / "_dredge/runs").glob("*/quarantine/**/*"):
        os.utime(path, (0, 0))
    refer(tmp_path / "later", v2.folder / "chunks" / chunk)
    (tmp_path / "other").rename(tmp_path / "before")
    (tmp_path / "later").rename(tmp_path / "other")
    with pytest.raises(AlarmError):
        purge_all(v2, run_id)
    assert copies[chunk].exists()
    acknowledge_alarms(open_state(v2.uri), v2.uri, "seen")
    for pin in read_pins(open_state(v2.uri)):
        end_pin(open_state(v2.uri), pin.pin_id, utc_now())
    (v2.folder / "chunks" / chunk).unlink()
    assert purge_all(v2, run_id).counts["live_objects"] == 1
    assert [name for name, path in copies.items() if path.exists()] == [chunk]


def purge_all(repo: Repo, run_id: str) -> StepSummary:
    config = {"storage": repo.uri, "dry_run": False, "run": run_id}
    return purge(IcechunkPurgeConfig.from_params(config), LocalRunner())
