"""Objects that virtual chunks of another repository point to are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dredge.errors import DredgeError
from tests.support.icechunk import local_storage, objects, quiet
from tests.support.icechunk_repo import Repo, expired_sample


def refer(folder: Path, chunk: Path) -> Repo:
    """Create a repository whose only array is a virtual chunk."""
    import zarr

    icechunk: Any = quiet()
    prefix = f"file://{chunk.parent}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(chunk.parent)))
    )
    repo = icechunk.Repository.create(local_storage(folder), config=config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="seen", shape=(1,), chunks=(1,), dtype="i4")
    session.store.set_virtual_ref("seen/c/0", f"{prefix}{chunk.name}", offset=0, length=4)
    session.commit("refers")
    return Repo(folder)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_a_chunk_that_another_repository_reads_is_kept(spec: int, mode: str, tmp_path: Path) -> None:
    repo = expired_sample(tmp_path / "repo", spec)
    chunks = objects(repo.folder)["chunks"]
    doomed = sorted(chunks - repo.collected(tmp_path)["chunks"])
    other = refer(tmp_path / "other", repo.folder / "chunks" / doomed[0])

    report = repo.collect(mode=mode, referring_repositories=other.uri)
    assert report["kept"]["objects"] == 0, "the mark heeds it, not only the look before deleting"
    assert objects(repo.folder)["chunks"] == chunks - {*doomed[1:]}


@pytest.mark.parametrize("spec", [1, 2])
def test_a_reference_made_after_the_mark_is_heeded(spec: int, tmp_path: Path) -> None:
    repo = expired_sample(tmp_path / "repo", spec)
    chunks = objects(repo.folder)["chunks"]
    doomed = sorted(chunks - repo.collected(tmp_path)["chunks"])
    other = refer(tmp_path / "other", repo.folder / "chunks" / "none")
    run = repo.guarded(referring_repositories=other.uri)
    refer(tmp_path / "later", repo.folder / "chunks" / doomed[0])
    (tmp_path / "other").rename(tmp_path / "before")
    (tmp_path / "later").rename(tmp_path / "other")
    repo.sweep(run)
    assert objects(repo.folder)["chunks"] == chunks - {*doomed[1:]}


def test_a_referring_repository_that_cannot_be_read_stops_the_run(tmp_path: Path) -> None:
    repo = expired_sample(tmp_path / "repo", 2)
    before = objects(repo.folder)
    with pytest.raises(DredgeError):
        repo.collect(referring_repositories=f"file://{tmp_path}/none")
    assert objects(repo.folder) == before
