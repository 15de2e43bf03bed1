"""A complete run says what the next one may build on; any other leaves that as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.save_report import advance_state
from dredge.icechunk.collection.state import RunState, StateStore
from dredge.icechunk.collection.steps import collect, plan_collection, release_lease, run_steps, save_report
from dredge.icechunk.maintenance import open_state
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk_repo import Repo

HERE = LocalRunner()


def state_of(repo: Repo) -> RunState | None:
    return StateStore(open_state(repo.uri)).current(repo.uri, repo.spec).state


def ended(repo: Repo, **changes: Any) -> Run:
    run = Run.open(plan_collection(repo.config(**changes)).run_uri)
    run_steps(run, HERE)
    save_report(run)
    release_lease(run)
    return run


@pytest.mark.parametrize("changes", [{"dry_run": True}, {"keep_transactions": True}])
@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_run_that_was_not_to_delete_all_leaves_the_state_as_it_was(
    v1: Repo, mode: str, changes: dict[str, Any]
) -> None:
    collect(v1.config())
    before = state_of(v1)
    assert before is not None
    ended(v1, mode=mode, **changes)
    assert state_of(v1) == before


def test_state_is_made_from_one_unbroken_chain_only(v1: Repo) -> None:
    run = v1.plan()
    run_steps(run, HERE)
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))
    with pytest.raises(RefusedError, match="list_candidates"):
        advance_state(run)
    assert state_of(v1) is None
    run.folder.write_summary(summary)
    assert advance_state(run) is not None
