"""Objects that refs surely need are found by another way than the mark's."""

from __future__ import annotations

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection import live_files
from dredge.icechunk.collection.check_limits import canaries
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.manifests import Manifest
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo


def test_canary_among_the_candidates_stops_the_run(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fast loop that loses references is found by the other way of reading.
    real = live_files.native_chunk_hashes
    monkeypatch.setattr(live_files, "native_chunk_hashes", lambda *file, **said: real(*file, **said)[:0])
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match="objects that refs need are candidates, such as chunks/"):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_manifest_without_arrays_gives_no_canaries(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    run = repo.plan(dry_run=True)
    monkeypatch.setattr(canaries, "parse_manifest", lambda data, key: Manifest("", 1, ()))
    assert {key.partition("/")[0] for key in canaries.sample(run)} == {"snapshots", "manifests"}
