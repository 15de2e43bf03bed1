"""Only a run of this repository that came to its candidates, in a way that can be taken back, is taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, NotFoundError
from dredge.icechunk.collection import undo
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.swept import open_swept
from dredge.icechunk.collection.undo import collected_of
from dredge.storage import StorageOptions
from tests.support.icechunk_repo import Repo


def test_run_that_deleted_tells_its_candidates_those_that_name_nothing_first(v1: Repo) -> None:
    run = v1.listed()
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    listed = ListCandidatesOutput.of(summary)
    for uri in (v1.uri, f"{v1.uri}/"):
        swept = open_swept(run.folder.uri, uri)
        kinds = ("overwritten", "chunks", "manifests", "transactions", "snapshots")
        assert swept.candidates == [part for kind in kinds for part in listed.candidates(kind)]
        assert len(swept.candidates) == 4
        assert (swept.way, swept.folder.uri) == (run.plan.undo.way, run.folder.uri)


def test_run_of_another_repository_is_not_taken_back(v1: Repo) -> None:
    with pytest.raises(ConfigError):
        open_swept(v1.listed().folder.uri, f"{v1.uri}-2")


def test_run_that_deleted_nothing_is_not_taken_back(v1: Repo) -> None:
    with pytest.raises(ConfigError):
        open_swept(v1.plan().folder.uri, v1.uri)


def test_dry_run_is_not_taken_back(v1: Repo) -> None:
    with pytest.raises(ConfigError):
        open_swept(v1.listed(dry_run=True).folder.uri, v1.uri)


def test_runs_of_a_repository_are_opened_as_its_stores_are(v1: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(undo, "open_swept", lambda *asked, **how: given.append((asked, how)))
    options = StorageOptions(delete_requests=3)
    collected_of(v1.uri, options).open_run("file:///runs/r")
    assert given == [(("file:///runs/r",), {"uri": v1.uri, "options": options})]


def test_repository_is_described_only_where_there_is_one(v1: Repo, tmp_path: Path) -> None:
    found = collected_of(f"{v1.uri}/")
    run = v1.listed()
    assert found.state.uri == f"{v1.uri}/_dredge"
    assert found.runs_uri == f"{v1.uri}/_dredge/runs"
    assert found.open_run(run.folder.uri).folder.run_id == run.plan.run_id
    with pytest.raises(NotFoundError):
        collected_of(f"file://{tmp_path}/nowhere")
