"""Objects that refs surely need are found by another way than the mark's."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection import index
from dredge.icechunk.collection.check_limits import canaries_among, sample_canaries
from dredge.icechunk.collection.config import PlannedExpiration
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.manifests import NATIVE, NamedChunks, parse_manifest
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.ids import encode_ids
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo


def test_canary_among_the_candidates_stops_the_run(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fast loop that loses references is found by the other way of reading.
    real = index.named_chunks
    monkeypatch.setattr(
        index, "named_chunks", lambda *file, **said: NamedChunks(real(*file, **said).native[:0])
    )
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match="chunks/"):
        collect(repo.config())
    assert objects(repo.folder) == before


def needed_by_tips(repo: Repo) -> tuple[set[str], set[str], set[str]]:
    tips = {ref.tip for ref in read_history(open_reader(repo.uri)).refs}
    manifests = {f"manifests/{info.id}" for tip in tips for info in repo.library.list_manifest_files(tip)}
    chunks: set[str] = set()
    for manifest in manifests:
        arrays = parse_manifest((repo.folder / manifest).read_bytes(), manifest).arrays
        names = [encode_ids(array.ids[array.kind == NATIVE]).to_pylist() for array in arrays]
        chunks |= {f"chunks/{name}" for some in names for name in some}
    return {f"snapshots/{tip}" for tip in tips}, manifests, chunks


def kinds(keys: Collection[str]) -> dict[str, set[str]]:
    return {
        kind: {key for key in keys if key.startswith(f"{kind}/")}
        for kind in ("snapshots", "manifests", "chunks")
    }


def test_manifests_that_are_too_large_to_read_are_canaries_themselves(repo: Repo) -> None:
    tips, manifests, chunks = needed_by_tips(repo)
    refs = {
        f"manifests/{info.id}": info.num_chunk_refs
        for tip in tips
        for info in repo.library.list_manifest_files(tip.removeprefix("snapshots/"))
    }
    run = repo.plan(dry_run=True)
    assert kinds(sample_canaries(run, max(refs.values())))["chunks"] == chunks
    assert kinds(sample_canaries(run, min(refs.values() - 1))) == {
        "snapshots": tips,
        "manifests": manifests,
        "chunks": set(),
    }


def test_canaries_of_a_preview_are_those_of_the_refs_that_will_be_left(repo: Repo) -> None:
    history = read_history(open_reader(repo.uri))
    latest = max(entry.flushed_at for entry in history.snapshots.values())
    after = PlannedExpiration(
        threshold=instant(latest + 1).isoformat(), delete_expired_branches=True, delete_expired_tags=True
    )
    tips = kinds(sample_canaries(repo.plan(dry_run=True, after=after)))["snapshots"]
    assert tips == {f"snapshots/{history.branches['main']}"}


def test_canaries_are_found_among_candidates_of_every_kind(repo: Repo) -> None:
    run = repo.listed()
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    candidates = ListCandidatesOutput.of(summary)
    keys = {kind: candidates.keys(run.folder, kind) for kind in ("snapshots", "manifests", "chunks")}
    asked = [min(some) for some in keys.values()]
    assert set(canaries_among(run, [*asked, "chunks/" + "0" * 20], candidates)) == set(asked)
    assert canaries_among(run, ["chunks/" + "0" * 20], candidates) == []
