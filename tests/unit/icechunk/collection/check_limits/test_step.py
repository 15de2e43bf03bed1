"""Each guard stops a run by itself: without it, exactly its test fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection.check_limits import canaries
from dredge.icechunk.collection.check_limits.step import GUARD
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    bulk_delete,
    check_limits,
    collect,
    list_candidates,
    mark,
    release_lease,
)
from dredge.icechunk.maintenance import make_lease
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()


def test_limits_hold_a_run_and_only_warn_in_a_dry_run(repo: Repo) -> None:
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match=r"max_objects: .* the limit is 3"):
        collect(repo.config(max_delete_objects=3))
    with pytest.raises(RefusedError, match="max_percent"):
        collect(repo.config(max_delete_percent=1))
    with pytest.raises(RefusedError, match="max_bytes"):
        collect(repo.config(max_delete_bytes=10))
    assert objects(repo.folder) == before
    report = collect(repo.config(max_delete_objects=3, dry_run=True))
    assert any("would await approval" in warning for warning in report["warnings"])
    run = repo.plan()
    mark(run, HERE)
    list_candidates(run, HERE)
    with pytest.raises(RefusedError, match="needs the result of check_limits"):
        bulk_delete(run, HERE)


def test_candidates_that_were_counted_but_not_written_stop_the_run(repo: Repo) -> None:
    run = repo.plan()
    mark(run, HERE)
    found = list_candidates(run, HERE)
    counts = {**found.counts, "chunks_candidates_objects": found.counts["chunks_candidates_objects"] + 1}
    run.folder.write_summary(replace(found, counts=counts))
    with pytest.raises(RefusedError, match="chunks_complete"):
        check_limits(run)


def test_lease_that_is_lost_while_the_guards_are_asked_is_a_refusal(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = v1.listed()
    real = canaries.sample

    def overtaken(run: Run) -> list[str]:
        release_lease(run)
        make_lease(run.state, 60).acquire("somebody else")
        return real(run)

    monkeypatch.setattr(canaries, "sample", overtaken)
    with pytest.raises(RefusedError, match="lease_held"):
        check_limits(run)
    assert run.folder.read_json(GUARD)["verdict"] == "refused"
