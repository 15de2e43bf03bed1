"""Live chunks are complete, however they are split."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import index
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.mark import chunks
from dredge.icechunk.collection.steps import collect
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo, split_local_folders


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
    def forgetful(*arguments: Any) -> Any:
        return index.read_manifest_rows(*arguments)[1:]

    monkeypatch.setattr(chunks, "read_manifest_rows", forgetful)
    before = objects(repo.folder)
    with pytest.raises(FormatError):
        collect(repo.config())
    assert objects(repo.folder) == before
