"""What a mark leaves for the steps after it, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import ManifestIndex
from dredge.icechunk.collection.mark import MarkOutput, read_live_snapshots, step
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect, mark, plan_collection
from dredge.icechunk.history import History
from dredge.icechunk.repository import read_history
from dredge.runs.tasks import LocalRunner
from dredge.storage import ObjectReader, ObjectWriter, open_reader
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()


def same(run: Run, found: MarkOutput, kind: str, names: Iterable[str]) -> bool:
    part = found.pruned if kind == "pruned" else found.live(kind)
    return sets.read_ids(run.folder, part).tolist() == sets.of_names(names).tolist()


def test_everything_that_is_live_is_in_a_set_of_its_kind(repo: Repo) -> None:
    run = repo.plan(dry_run=True)
    found = MarkOutput.of(mark(run, HERE))
    history = read_history(open_reader(repo.uri))
    live = set(history.snapshots)
    pruned = {log for entry in history.snapshots.values() for log in entry.pruned}
    manifests = {info.id for node in live for info in repo.library.list_manifest_files(node)}
    assert bool(pruned & live) is bool(pruned - live) is (repo.spec == 2)
    assert same(run, found, "snapshots", live)
    assert same(run, found, "manifests", manifests)
    assert same(run, found, "transactions", live | pruned)
    assert same(run, found, "pruned", pruned - live)
    assert read_live_snapshots(run.folder, found) == live
    assert found.summary.details["history"] == history.digest


def test_optimized_mark_of_a_repository_that_did_not_change_reads_no_snapshot_again(v1: Repo) -> None:
    collect(v1.config())
    before = {key for key in v1.metadata() if key.startswith("index/")}
    run = Run.open(plan_collection(v1.config(mode="auto")).run_uri)
    assert run.base is not None
    found = MarkOutput.of(mark(run, HERE))
    counts = found.counts
    assert (found.chunks, "chunk_bits" in found.summary.details) == (0, False), "what changed is enough"
    assert {key for key in v1.metadata() if key.startswith("index/")} == before
    assert counts["live_snapshots"] == len(objects(v1.folder)["snapshots"])
    assert counts["manifests_read"] == 0


@pytest.mark.parametrize("availability", ["online", "read-only", "offline"])
def test_only_a_repository_that_is_online_is_marked(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, availability: str
) -> None:
    run = v1.plan(dry_run=True)

    def told(reader: ObjectReader, **_: object) -> History:
        return replace(read_history(reader), availability=availability)

    monkeypatch.setattr(step, "read_history", told)
    if availability == "online":
        assert mark(run, HERE).counts["live_snapshots"] > 0
    else:
        with pytest.raises(RefusedError, match=availability):
            mark(run, HERE)


def test_only_of_live_snapshots_it_is_told_that_their_reads_differ(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = read_history(open_reader(v1.uri)).branches["main"]
    honest = ManifestIndex.load

    def contradicted(state: ObjectWriter) -> ManifestIndex:
        index = honest(state)
        index.contradicted |= {tip, "0" * 20}
        return index

    monkeypatch.setattr(ManifestIndex, "load", contradicted)
    (told,) = mark(v1.plan(), HERE).warnings
    assert tip in told


def test_optimized_mark_still_knows_of_which_snapshots_reads_differed(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = read_history(open_reader(v1.uri)).branches["main"]
    honest = ManifestIndex.load

    def contradicted(state: ObjectWriter) -> ManifestIndex:
        index = honest(state)
        index.contradicted.add(tip)
        return index

    with monkeypatch.context() as told:
        told.setattr(ManifestIndex, "load", contradicted)
        collect(v1.config())
    run = Run.open(plan_collection(v1.config(mode="auto")).run_uri)
    assert run.base is not None
    assert MarkOutput.of(mark(run, HERE)).contradicted == [tip]


def test_index_knows_no_snapshot_of_a_run_that_could_not_read_the_manifests(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged read names what is not there; later runs read better only where the index does not know it."""

    def torn(*_: object) -> None:
        raise FormatError("a manifest is missing")

    run = v1.plan()
    with monkeypatch.context() as damaged:
        damaged.setattr(step, "_find_chunks", torn)
        with pytest.raises(FormatError):
            mark(run, HERE)
    assert ManifestIndex.load(run.state).snapshots(run.state) == {}
