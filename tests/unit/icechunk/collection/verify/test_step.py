"""After a sweep what is live must be there, and what was deleted must be gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.outputs import CheckLimitsOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import bulk_delete, verify
from dredge.icechunk.repository import read_history
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()


@pytest.fixture
def swept(v1: Repo, tmp_path: Path) -> Run:
    shutil.copytree(v1.folder, tmp_path / "before")
    run = v1.guarded()
    bulk_delete(run, HERE)
    return run


def canaries_of(run: Run) -> list[str]:
    summary = run.folder.read_summary(CheckLimitsOutput.STEP)
    assert summary is not None
    return CheckLimitsOutput.of(summary).read_canaries(run.folder)


def test_sound_repository_is_verified_and_the_figures_say_how_much_was_looked_at(
    v1: Repo, swept: Run
) -> None:
    summary = verify(swept)
    nodes = read_history(open_reader(v1.uri)).snapshots
    manifests = {info.id for node in nodes for info in v1.library.list_manifest_files(node)}
    assert summary.status == "success"
    assert summary.counts == {
        "live_snapshots": len(nodes),
        "live_manifests": len(manifests),
        "canaries": len(canaries_of(swept)),
        "deleted_sample": 20,
    }


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_live_file_that_is_gone_is_told(v1: Repo, swept: Run, kind: str) -> None:
    node = v1.ids["10"]
    name = node if kind == "snapshots" else next(iter(v1.library.list_manifest_files(node))).id
    (v1.folder / kind / name).unlink()
    with pytest.raises(FormatError, match=kind):
        verify(swept)
    incomplete = swept.folder.read_incomplete("verify")
    assert incomplete is not None
    assert incomplete.status == "partial"


def test_object_that_refs_need_and_that_was_there_before_the_sweep_is_missed(v1: Repo, swept: Run) -> None:
    chunk = next(key for key in canaries_of(swept) if key.startswith("chunks/"))
    (v1.folder / chunk).unlink()
    with pytest.raises(FormatError, match=chunk):
        verify(swept)


def test_deleted_object_that_is_still_there_is_told(v1: Repo, swept: Run, tmp_path: Path) -> None:
    name = min(objects(tmp_path / "before")["chunks"] - objects(v1.folder)["chunks"])
    shutil.copy(tmp_path / "before" / "chunks" / name, v1.folder / "chunks" / name)
    with pytest.raises(FormatError, match=f"chunks/{name}"):
        verify(swept)
