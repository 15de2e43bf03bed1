"""A person who decides sees whose it was, as far as that is known, and what nobody can tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dredge.gc.approve.question import ByBranch, by_branch, owned_by_branch
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.steps import put_question
from dredge.storage import open_deleter
from tests.support.approvals import two_branches, waiting_run
from tests.support.gc import summary_of


def looked_at(run: Run) -> ByBranch:
    return by_branch(run, CheckLimitsOutput.of(summary_of(run, "check_limits")))


def test_candidates_are_counted_for_the_branch_whose_commits_named_them_last() -> None:
    _, run = two_branches()
    found = looked_at(run)
    figures = {names: (amount.objects, amount.size_bytes) for names, amount in found.named.items()}
    assert figures[("work",)] == (3, 1 + 3 + 4), (
        "also what both had: a commit of work named it after main's did"
    )
    assert figures[("main",)] == (1, 2)
    assert (found.unknown.objects, found.unknown.size_bytes) == (1, len(b"never committed"))
    assert found.unread == []
    body = put_question(run).body
    assert all(f"`{name}`" in body for name in ("work", "main"))
    assert "15 B" in body


def test_each_candidate_is_among_those_of_its_branch() -> None:
    _, run = two_branches()
    named = looked_at(run).named
    owned = owned_by_branch(run)
    assert {name: len(hashes) for name, hashes in owned.hashes.items()} == {
        name: amount.objects for (name,), amount in named.items()
    }
    assert all(np.all(hashes[1:] > hashes[:-1]) for hashes in owned.hashes.values())


def test_what_cannot_be_read_is_said_and_stops_nobody_from_deciding() -> None:
    world, run = two_branches()
    everything = looked_at(run)
    lost = list(world.lake.keys("_lakefs/retention/gc/dredge/index/"))
    open_deleter(world.lake.namespace).delete(lost)
    assert looked_at(run) == everything, "decoded again from the ranges"
    tables = [key for key in world.lake.keys("_lakefs/") if len(Path(key).name) == 64]
    open_deleter(world.lake.namespace).delete(tables)
    found = looked_at(run)
    assert found.named == {}
    assert found.unknown.objects == 5
    assert found.unread
    assert "could not" in put_question(run).body


def test_without_rules_no_commit_tells() -> None:
    _, run, _, gone = waiting_run()
    found = looked_at(run)
    assert (found.named, found.unknown.objects) == ({}, len(gone))
