"""An earlier try of a step lives on while the step is tried again: whatever it does late counts for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import LeaseHeldError, OvertakenError, RefusedError
from dredge.icechunk.collection import guards, listing, marking, sweeping, verifying
from dredge.icechunk.collection.config import CollectConfig, Safety, Tuning
from dredge.icechunk.collection.plan import Context, plan_collection
from dredge.icechunk.collection.steps import release_lease, run_steps
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.repository import read_history
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.storage import open_deleter, open_reader, open_writer
from tests.support.icechunk import build, graph_of, local_storage, objects, quiet, scenarios
from tests.support.orphans import MOMENTS, Moment, Recorder, sleep_once, unchanged

type Step = Callable[[Context, TaskRunner], StepSummary]

STEPS: dict[str, Step] = {
    marking.STEP: marking.mark,
    listing.STEP: listing.find_candidates,
    guards.STEP: lambda context, _: guards.check_limits(context),
    sweeping.STEP: sweeping.sweep,
    verifying.STEP: lambda context, _: verifying.verify(context),
}
HERE = LocalRunner()


class Repo:
    """A repository of spec 1 with released snapshots."""

    def __init__(self, folder: Path, ids: dict[str, str]) -> None:
        self.folder, self.ids, self.uri = folder, ids, f"file://{folder}"

    @property
    def library(self) -> Any:
        return quiet().Repository.open(local_storage(self.folder))

    def plan(self, **changes: Any) -> Context:
        settings = {"dry_run": False, "unsafe_min_age_seconds": 0, "grace_hours": 0} | changes
        return Context.open(plan_collection(CollectConfig(uri=self.uri, **settings)).run_uri)

    def metadata(self) -> dict[str, bytes]:
        reader = open_writer(f"{self.uri}/_dredge")
        return {key: reader.get(key) for batch in reader.list("") for key in batch["key"].to_pylist()}

    def collected(self, tmp_path: Path) -> dict[str, set[str]]:
        """What an undisturbed collection of a copy leaves."""
        shutil.copytree(self.folder, tmp_path / "copy")
        run_steps(Repo(tmp_path / "copy", self.ids).plan(), HERE)
        return objects(tmp_path / "copy")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("tries") / "v1"
    ids = build(local_storage(folder), graph_of(scenarios()[0]), 1)
    history = read_history(open_reader(f"file://{folder}"))
    middle = (history.snapshots[ids["7"]].flushed_at + history.snapshots[ids["8"]].flushed_at) // 2
    expire(f"file://{folder}", instant(middle))
    return folder, ids


@pytest.fixture
def repo(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Repo:
    shutil.copytree(made[0], tmp_path / "repo")
    return Repo(tmp_path / "repo", made[1])


def driver(context: Context) -> Context:
    """Another driver of the same run."""
    return Context.open(context.plan.run_uri)


def come_to(context: Context, name: str) -> None:
    """Do the steps before one."""
    for before, step in STEPS.items():
        if before == name:
            return
        step(context, HERE)


def test_sweep_keeps_a_snapshot_that_only_an_orphaned_mark_saw_in_use(repo: Repo) -> None:
    """It slept through its retry; a branch was put on a released snapshot, and its late mark knows it as live."""
    earlier = repo.plan(dry_run=True)
    run_steps(earlier, HERE)  # from then on the index knows every file
    release_lease(earlier)
    orphan = repo.plan()
    retry = driver(orphan)
    back = repo.ids["7"]

    def retried() -> None:
        come_to(retry, sweeping.STEP)
        repo.library.create_branch("back", back)

    sleep_once(orphan.folder, "before its work", retried)
    with pytest.raises(OvertakenError, match="try 1 of step mark"):
        marking.mark(orphan, HERE)
    with pytest.raises(RefusedError, match="in use again by branch back"):
        sweeping.sweep(retry, HERE)
    assert (repo.folder / "snapshots" / back).exists()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STEPS)
def test_an_orphaned_try_of_any_step_leaves_no_result_and_touches_none(
    repo: Repo, tmp_path: Path, name: str, moment: Moment
) -> None:
    left = repo.collected(tmp_path)
    orphan = repo.plan()
    retry = driver(orphan)
    come_to(orphan, name)
    before: dict[str, bytes] = {}

    def retried() -> None:
        STEPS[name](retry, HERE)
        before.update(repo.metadata())

    sleep_once(orphan.folder, moment, retried)
    with pytest.raises(OvertakenError):
        STEPS[name](orphan, HERE)
    assert unchanged(before, repo.metadata(), "lease.json") == []
    run_steps(retry, HERE)
    assert objects(repo.folder) == left


@pytest.mark.parametrize("name", [marking.STEP, listing.STEP, sweeping.STEP])
def test_tasks_of_an_orphan_write_nothing_over_what_its_retry_wrote(repo: Repo, name: str) -> None:
    orphan, workers = repo.plan(safety=Safety(gate_every_seconds=0.02)), Recorder()
    retry = driver(orphan)
    come_to(orphan, name)
    STEPS[name](orphan, workers)
    open_deleter(orphan.folder.uri).delete([f"{name}/_SUCCESS.json"])
    STEPS[name](retry, HERE)
    before, left = repo.metadata(), objects(repo.folder)
    workers.again()
    assert unchanged(before, repo.metadata(), "_progress") == []
    assert objects(repo.folder) == left
    run_steps(retry, HERE)


def test_an_orphaned_sweep_makes_no_request_once_its_retry_has_begun(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = repo.plan(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0))
    come_to(orphan, sweeping.STEP)
    retry = driver(orphan)
    made: list[str] = []
    retried: list[int] = []

    class Watched:
        def __init__(self, uri: str) -> None:
            self.inner = open_deleter(uri)

        def delete(self, keys: list[str], *_asked: object) -> Any:
            made.extend(keys)
            if not retried:
                retried.append(0)
                sweeping.sweep(retry, HERE)
                retried[0] = len(made)
            return self.inner.delete(keys)

    monkeypatch.setattr(sweeping, "open_deleter", Watched)
    with pytest.raises(OvertakenError, match="step ledger"):
        sweeping.sweep(orphan, HERE)
    assert len(made) == retried[0] > 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STEPS)
def test_a_try_that_wakes_up_after_its_run_has_ended_disturbs_no_later_run(
    repo: Repo, tmp_path: Path, name: str, moment: Moment
) -> None:
    left = repo.collected(tmp_path)
    orphan = repo.plan()
    retry = driver(orphan)
    come_to(orphan, name)
    later: list[Context] = []
    before: dict[str, bytes] = {}

    def ended_and_another_began() -> None:
        run_steps(retry, HERE)
        release_lease(retry)
        later.append(repo.plan())
        come_to(later[0], sweeping.STEP)
        before.update(repo.metadata())

    sleep_once(orphan.folder, moment, ended_and_another_began)
    with pytest.raises(RefusedError):
        STEPS[name](orphan, HERE)
    assert unchanged(before, repo.metadata()) == []
    run_steps(later[0], HERE)
    assert objects(repo.folder) == left


@pytest.mark.parametrize("name", [marking.STEP, listing.STEP])
def test_sweep_accepts_one_unbroken_chain_only(repo: Repo, name: str) -> None:
    context = repo.plan()
    come_to(context, sweeping.STEP)
    before = objects(repo.folder)
    open_deleter(context.folder.uri).delete([f"{name}/_SUCCESS.json"])
    STEPS[name](context, HERE)
    with pytest.raises(RefusedError, match=f"another result of {name}"):
        sweeping.sweep(context, HERE)
    assert objects(repo.folder) == before
    run_steps(context, HERE)


def test_a_sweep_whose_lease_was_given_back_deletes_nothing(repo: Repo) -> None:
    context = repo.plan()
    come_to(context, sweeping.STEP)
    before = objects(repo.folder)
    sleep_once(context.folder, "before its work", lambda: release_lease(context))
    with pytest.raises(LeaseHeldError, match="held by nobody"):
        sweeping.sweep(context, HERE)
    assert objects(repo.folder) == before
