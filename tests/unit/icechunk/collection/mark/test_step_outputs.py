"""What a mark leaves for the steps after it, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection.index import ManifestIndex
from dredge.icechunk.collection.mark import MarkOutput, step
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect, mark, plan_collection
from dredge.icechunk.history import History
from dredge.icechunk.repository import read_history
from dredge.runs.tasks import LocalRunner
from dredge.storage import ObjectReader, ObjectWriter, open_reader
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()


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
