"""Runs with a request for approval, and their answers."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.approve.records import AIRFLOW, Asked, Decision
from dredge.errors import AwaitingApprovalError, RejectedError
from dredge.gc.approve import answer, approve, find_question
from dredge.gc.check_limits.step import check_limits
from dredge.gc.run import Run
from dredge.runs.payload import StepSummary
from tests.support.gc import World, busy_world, make_world, summary_of


def waiting_run(**settings: Any) -> tuple[World, Run, set[str], set[str]]:
    """A run in awaiting_approval; returns the objects to keep and to delete as well."""
    world, kept, gone = busy_world(**{"max_delete_objects": 0, **settings})
    run = world.plan()
    world.mark(run)
    with pytest.raises(AwaitingApprovalError):
        approve(run)
    return world, run, kept, gone


def two_branches() -> tuple[World, Run]:
    """Content of main's old commits, of work's, of both, and staged content only; a run waits."""
    world = make_world(max_delete_objects=0)
    world.rules(1)
    branches, repository = world.lake.catalog.branches, world.lake.repository
    world.upload("both", b"1")
    world.lake.commit()
    branches.create_branch(repository, "work", "main")
    for branch, content in (("main", b"22"), ("work", b"333"), ("work", b"4444")):
        world.age(hours=1)
        world.upload(branch, content, branch=branch)
        world.lake.commit(branch=branch)
    world.upload("work", b"never committed", branch="work")
    branches.reset_branch(repository, "work")
    for branch in ("main", "work"):
        world.age(hours=1)
        for path in ("both", branch):
            world.upload(path, b"the last one is another", branch=branch)
        world.lake.commit(branch=branch)
    world.age(days=9)
    for branch in ("main", "work"):
        world.upload("now", branch.encode() * 9, branch=branch)
        world.lake.commit(branch=branch)
    world.age(days=2)
    run = world.plan()
    world.mark(run)
    with pytest.raises(AwaitingApprovalError):
        take(run)
    return world, run


def said(run: Run, decision: Decision = "approved", by: str = "ada", through: str = AIRFLOW) -> Asked:
    return answer(run, decision, by, through)


def approved_run(**settings: Any) -> tuple[World, Run, set[str], set[str]]:
    """A run with an approval, before its deletion."""
    world, run, kept, gone = waiting_run(**settings)
    said(run)
    take(run)
    return world, run, kept, gone


def asked_again(world: World, run: Run) -> None:
    """Repeat the guards, as after a lost try, so the run makes another request."""
    found = summary_of(run, "subtract")
    run.folder.write_summary(replace(found, details={**found.details, "made": "again"}))
    check_limits(run, world.runner)
    with pytest.raises((AwaitingApprovalError, RejectedError)):
        approve(run)


def take(run: Run) -> StepSummary:
    summary = approve(run)
    assert summary is not None
    return summary


def change(run: Run, name: str, **fields: Any) -> None:
    """Edit the current request record, like a user with write access to the folder."""
    writer = run.folder.writer
    find_question(run)
    (key,) = [
        key
        for batch in writer.list("approve/")
        for key in batch["key"].to_pylist()
        if key.endswith(f"/{name}.json")
    ]
    value = {**json.loads(writer.get(key)), **fields}
    writer.put(key, json.dumps(value, sort_keys=True).encode())
