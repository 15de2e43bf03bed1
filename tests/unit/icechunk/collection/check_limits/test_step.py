"""Each guard stops a run by itself: without it, exactly its test fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import AwaitingApprovalError, RefusedError
from dredge.icechunk.collection import check_limits as step
from dredge.icechunk.collection.check_limits import GUARD
from dredge.icechunk.collection.outputs import CheckLimitsOutput, ListCandidatesOutput
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
from dredge.undo.ways import FIRST_OBJECTS_MAX
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo
from tests.unit.icechunk.collection.test_optimized import grown, optimized

HERE = LocalRunner()


def test_limits_hold_a_run_and_only_warn_in_a_dry_run(repo: Repo) -> None:
    before, lease = objects(repo.folder), repo.folder / "_dredge" / "lease.json"
    with pytest.raises(RefusedError, match="max_objects"):
        collect(repo.config(max_delete_objects=3))
    lease.unlink()  # the run waits for an answer
    with pytest.raises(RefusedError, match="max_percent"):
        collect(repo.config(max_delete_percent=1))
    lease.unlink()
    with pytest.raises(RefusedError, match="max_bytes"):
        collect(repo.config(max_delete_bytes=10))
    lease.unlink()
    assert objects(repo.folder) == before
    report = collect(repo.config(max_delete_objects=3, dry_run=True))
    assert any("max_objects" in warning for warning in report["warnings"])
    run = repo.plan()
    mark(run, HERE)
    list_candidates(run, HERE)
    with pytest.raises(RefusedError, match="check_limits"):
        bulk_delete(run, HERE)


@pytest.mark.parametrize(("undo", "asks"), [("off", True), ("quarantine", False)])
def test_the_first_run_without_undo_asks_beyond_a_thousand_objects(v1: Repo, undo: str, asks: bool) -> None:
    planted = [v1.folder / "chunks" / f"{number:019d}0" for number in range(FIRST_OBJECTS_MAX + 1)]
    for path in planted:
        path.write_bytes(b"x")
    if asks:
        with pytest.raises(AwaitingApprovalError):
            collect(v1.config(undo=undo))
        assert all(path.exists() for path in planted)
    else:
        collect(v1.config(undo=undo))
        assert not any(path.exists() for path in planted)


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize("kind", ["snapshots", "transactions", "manifests", "chunks"])
def test_candidates_that_were_counted_but_not_written_or_not_counted_stop_the_run(
    v1: Repo, kind: str, more: int
) -> None:
    run = v1.plan()
    mark(run, HERE)
    found, figure = list_candidates(run, HERE), f"{kind}_candidates_objects"
    run.folder.write_summary(replace(found, counts={**found.counts, figure: found.counts[figure] + more}))
    with pytest.raises(RefusedError, match=f"{kind}_complete"):
        check_limits(run)


def test_every_guard_says_what_it_found_about_these_very_candidates(repo: Repo) -> None:
    run = repo.listed()
    summary = check_limits(run)
    kinds = ("snapshots", "transactions", "manifests", "chunks")
    assert {item["rule"]: item["verdict"] for item in summary.details["findings"]} == dict.fromkeys(
        (
            *(f"{kind}_complete" for kind in kinds),
            *("live_not_empty", "chunks_present", "transactions_present", "canaries", "lease_held"),
            *("max_objects", "max_bytes", "max_percent"),
        ),
        "passed",
    )
    candidates = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert candidates is not None
    guard = run.folder.read_json(GUARD)
    assert guard["candidates_digest"] == candidates.digest
    assert guard["verdict"] == summary.details["verdict"] == "passed"
    assert guard["findings"] == summary.details["findings"]
    keys = CheckLimitsOutput.of(summary).read_canaries(run.folder)
    assert set(keys) == set(step.sample_canaries(run))
    listed = ListCandidatesOutput.of(candidates)
    assert summary.counts["listed_objects"] == listed.total("listed_objects")


@pytest.mark.parametrize(("live", "verdict"), [(0, "refused"), (1, "passed")])
def test_mark_that_found_nothing_live_stops_the_run(v1: Repo, live: int, verdict: str) -> None:
    run = v1.plan(dry_run=True)
    found = mark(run, HERE)
    list_candidates(run, HERE)
    run.folder.write_summary(replace(found, counts={**found.counts, "live_snapshots": live}))
    if verdict == "refused":
        with pytest.raises(RefusedError, match="live_not_empty"):
            check_limits(run)
    else:
        assert check_limits(run).details["verdict"] == "passed"


def test_share_of_an_optimized_run_is_of_all_chunks_that_the_clean_run_left(v1: Repo) -> None:
    run = optimized(grown(v1), dry_run=True)
    mark(run, HERE)
    listed = ListCandidatesOutput.of(list_candidates(run, HERE))
    assert run.base is not None
    chunks = run.base.state.chunk_objects
    assert listed.count("chunks", "listed_objects") > 0
    others = sum(listed.count(kind, "listed_objects") for kind in ("snapshots", "transactions", "manifests"))
    assert check_limits(run).counts["listed_objects"] == chunks + others


def test_lease_that_is_lost_while_the_guards_are_asked_is_a_refusal(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = v1.listed()
    real = step.sample_canaries

    def overtaken(run: Run) -> list[str]:
        release_lease(run)
        make_lease(run.state, 60).acquire("somebody else")
        return real(run)

    monkeypatch.setattr(step, "sample_canaries", overtaken)
    with pytest.raises(RefusedError, match="lease_held"):
        check_limits(run)
    assert run.folder.read_json(GUARD)["verdict"] == "refused"
