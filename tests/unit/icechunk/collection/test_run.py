"""A run works on the history that its plan says, and on what it builds on."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.icechunk.collection import run as run_module
from dredge.icechunk.collection.config import PlannedExpiration
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect, plan_collection
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.repository import KnownSnapshots, read_history
from dredge.runs.clock import utc_now
from dredge.storage import StorageOptions, open_reader
from tests.support.icechunk_repo import Repo


def test_run_is_opened_with_its_plan_its_stores_and_the_clock_that_is_given(v1: Repo) -> None:
    plan = plan_collection(v1.config())

    def clock() -> Any:
        return utc_now()

    options = StorageOptions(delete_requests=3)
    run = Run.open(plan.run_uri, options, clock)
    assert (run.plan, run.folder.uri, run.folder.run_id) == (plan, plan.run_uri, plan.run_id)
    assert (run.reader.uri, run.state.uri) == (v1.uri, f"{v1.uri}/_dredge")
    assert run.clock is clock
    assert run.options is options
    assert run.base is None


def test_history_after_a_planned_expiration_lacks_what_it_would_release(repo: Repo) -> None:
    before = read_history(open_reader(repo.uri))
    latest = instant(max(entry.flushed_at for entry in before.snapshots.values()) + 1).isoformat()
    plain = repo.plan(dry_run=True)
    assert plain.read_history().snapshots == before.snapshots
    plain.lease.release(plain.plan.lease)

    def after(**how: Any) -> set[str]:
        planned = PlannedExpiration(threshold=latest, **how)
        run = Run.open(plan_collection(repo.config(dry_run=True, after=planned)).run_uri)
        run.lease.release(run.plan.lease)
        return {ref.label for ref in run.read_history().refs}

    refs = {ref.label for ref in before.refs}
    branches = {label for label in refs if label.startswith("branch:")}
    tags = refs - branches
    assert branches - {"branch:main"}
    assert tags
    assert after() == refs
    assert after(delete_expired_branches=True) == {"branch:main"} | tags
    assert after(delete_expired_tags=True) == branches


def test_history_is_expired_by_the_rule_that_was_planned(v1: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[str | None] = []

    def noted(history: Any, threshold: Any, *, rule: str | None, **how: Any) -> Any:
        rules.append(rule)
        return plan_expiration(history, threshold, rule=rule, **how)

    monkeypatch.setattr(run_module, "plan_expiration", noted)
    for rule in (None, "document"):
        planned = PlannedExpiration(threshold="2026-05-01T00:00:00+00:00", rule=rule)
        run = v1.plan(dry_run=True, after=planned)
        run.read_history()
        run.lease.release(run.plan.lease)
    assert rules == [None, "document"]


def test_run_that_builds_on_another_reads_no_snapshot_again_that_it_knows(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(v1.config())
    given: list[KnownSnapshots | None] = []

    def noted(reader: Any, *, known: KnownSnapshots | None) -> Any:
        given.append(known)
        return read_history(reader, known=known)

    monkeypatch.setattr(run_module, "read_history", noted)
    run = Run.open(plan_collection(v1.config(mode="auto")).run_uri)
    assert run.base is not None
    run.read_history()
    own = KnownSnapshots()
    run.read_history(own)
    first, second = given
    assert first is not None
    assert first.entries.keys() == run.base.known.entries.keys()
    assert first.entries
    assert second is own
