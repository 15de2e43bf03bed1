"""Late and repeated tries of a step have no effect."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dredge.errors import LeaseHeldError, OvertakenError, RefusedError
from dredge.icechunk.collection.config import Safety, Tuning
from dredge.icechunk.collection.outputs import (
    BulkDeleteOutput,
    CheckLimitsOutput,
    ListCandidatesOutput,
    MarkOutput,
    VerifyOutput,
)
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    bulk_delete,
    check_limits,
    list_candidates,
    mark,
    release_lease,
    run_steps,
    verify,
)
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.storage import open_deleter
from tests.support.gc import deleting
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo
from tests.support.orphans import MOMENTS, Moment, sleep_once, unchanged

type Step = Callable[[Run, TaskRunner], StepSummary]

STEPS: dict[str, Step] = {
    MarkOutput.STEP: mark,
    ListCandidatesOutput.STEP: list_candidates,
    CheckLimitsOutput.STEP: lambda run, _: check_limits(run),
    BulkDeleteOutput.STEP: bulk_delete,
    VerifyOutput.STEP: lambda run, _: verify(run),
}
HERE = LocalRunner()


def driver(run: Run) -> Run:
    return Run.open(run.plan.run_uri)


def come_to(run: Run, name: str) -> None:
    for before, step in STEPS.items():
        if before == name:
            return
        step(run, HERE)


def test_sweep_keeps_a_snapshot_that_only_an_orphaned_mark_saw_in_use(v1: Repo) -> None:
    earlier = v1.plan(dry_run=True)
    run_steps(earlier, HERE)  # from then on the index knows every file
    release_lease(earlier)
    orphan = v1.plan()
    retry = driver(orphan)
    back = v1.ids["7"]

    def retried() -> None:
        come_to(retry, BulkDeleteOutput.STEP)
        v1.library.create_branch("back", back)

    sleep_once(orphan.folder, "before its work", retried)
    with pytest.raises(OvertakenError, match="mark"):
        mark(orphan, HERE)
    with pytest.raises(RefusedError, match="branch back"):
        bulk_delete(retry, HERE)
    assert (v1.folder / "snapshots" / back).exists()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STEPS)
def test_an_orphaned_try_of_any_step_leaves_no_result_and_touches_none(
    v1: Repo, tmp_path: Path, name: str, moment: Moment
) -> None:
    left = v1.collected(tmp_path)
    orphan = v1.plan()
    retry = driver(orphan)
    come_to(orphan, name)
    before: dict[str, bytes] = {}

    def retried() -> None:
        STEPS[name](retry, HERE)
        before.update(v1.metadata())

    sleep_once(orphan.folder, moment, retried)
    with pytest.raises(OvertakenError):
        STEPS[name](orphan, HERE)
    assert unchanged(before, v1.metadata(), "lease.json") == []
    run_steps(retry, HERE)
    assert objects(v1.folder) == left


def test_an_orphaned_sweep_makes_no_request_once_its_retry_has_begun(v1: Repo) -> None:
    orphan = v1.plan(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0))
    come_to(orphan, BulkDeleteOutput.STEP)
    retry = driver(orphan)
    retried: list[int] = []

    def retry_first(_number: int, _keys: object) -> None:
        if not retried:
            retried.append(0)
            bulk_delete(retry, HERE)
            retried[0] = len(requests.made)

    with deleting(before=retry_first) as requests, pytest.raises(OvertakenError, match="step bulk_delete"):
        bulk_delete(orphan, HERE)
    assert len(requests.made) == retried[0] > 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STEPS)
def test_a_try_that_wakes_up_after_its_run_has_ended_disturbs_no_later_run(
    v1: Repo, tmp_path: Path, name: str, moment: Moment
) -> None:
    left = v1.collected(tmp_path)
    orphan = v1.plan()
    retry = driver(orphan)
    come_to(orphan, name)
    later: list[Run] = []
    before: dict[str, bytes] = {}

    def ended_and_another_began() -> None:
        run_steps(retry, HERE)
        release_lease(retry)
        later.append(v1.plan())
        come_to(later[0], BulkDeleteOutput.STEP)
        before.update(v1.metadata())

    sleep_once(orphan.folder, moment, ended_and_another_began)
    with pytest.raises(RefusedError):
        STEPS[name](orphan, HERE)
    assert unchanged(before, v1.metadata()) == []
    run_steps(later[0], HERE)
    assert objects(v1.folder) == left


@pytest.mark.parametrize("name", [MarkOutput.STEP, ListCandidatesOutput.STEP])
def test_sweep_accepts_one_unbroken_chain_only(v1: Repo, name: str) -> None:
    run = v1.plan()
    come_to(run, BulkDeleteOutput.STEP)
    before = objects(v1.folder)
    open_deleter(run.folder.uri).delete([f"{name}/_SUCCESS.json"])
    STEPS[name](run, HERE)
    with pytest.raises(RefusedError, match=name):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
    run_steps(run, HERE)


def test_a_sweep_whose_lease_was_given_back_deletes_nothing(v1: Repo) -> None:
    run = v1.plan()
    come_to(run, BulkDeleteOutput.STEP)
    before = objects(v1.folder)
    sleep_once(run.folder, "before its work", lambda: release_lease(run))
    with pytest.raises(LeaseHeldError):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
