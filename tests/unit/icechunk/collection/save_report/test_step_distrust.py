"""No run builds on a state again that another could not read, or has made untrue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import FormatError, UnavailableError
from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.save_report import step
from dredge.icechunk.collection.save_report.step import (
    _could_not_read,
    _distrust,
    _is_complete,
    _kept_chunks,
    save_report,
)
from dredge.icechunk.collection.state.output import StateOutput
from dredge.runs.clock import utc_now
from dredge.runs.payload import to_json
from dredge.runs.summary import Status, StepSummary
from dredge.runs.tries import StepTry
from dredge.runs.versions import Version
from tests.support.icechunk_repo import Repo


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan()


def with_settings(run: Run, **changes: Any) -> Run:
    run.plan = replace(run.plan, config=replace(run.plan.config, **changes))
    return run


def done(run: Run, name: str, status: Status = "success") -> None:
    attempt = StepTry.claim(run.folder.writer, name)
    now = utc_now()
    summary = StepSummary(name, run.plan.run_id, status, now, now, try_number=attempt.number)
    with run.folder.writing(attempt):
        run.folder.write_summary(summary)


@pytest.mark.parametrize("status", [None, "success", "partial"])
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("keep_chunks", [True, False])
def test_run_that_kept_all_chunks_made_the_state_untrue_once_it_may_have_deleted(
    run: Run, keep_chunks: bool, dry_run: bool, status: Status | None
) -> None:
    with_settings(run, keep_chunks=keep_chunks, dry_run=dry_run)
    if status is not None:
        done(run, BulkDeleteOutput.STEP, status)
    why = _kept_chunks(run)
    assert (why is not None) is (keep_chunks and not dry_run and status is not None)


@pytest.mark.parametrize("name", [MarkOutput.STEP, ListCandidatesOutput.STEP])
def test_optimized_run_that_met_damage_distrusts_what_it_was_built_on(run: Run, name: str) -> None:
    optimized = replace(run.plan, mode="optimized")
    run.folder.write_failure(
        name, UnavailableError("away"), utc_now(), StepTry.claim(run.folder.writer, name)
    )
    run.plan = optimized
    assert _could_not_read(run) is None
    run.folder.write_failure(name, FormatError("torn"), utc_now(), StepTry.claim(run.folder.writer, name))
    assert _could_not_read(run) == "torn"
    run.plan = replace(optimized, mode="clean")
    assert _could_not_read(run) is None


@pytest.mark.parametrize(
    ("kept", "torn", "has_state", "why"),
    [
        (None, None, True, None),
        ("kept", None, True, "kept"),
        (None, "torn", True, "torn"),
        ("kept", "torn", True, "kept"),
        ("kept", "torn", False, None),
    ],
)
def test_state_is_distrusted_for_either_reason(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    kept: str | None,
    torn: str | None,
    has_state: bool,
    why: str | None,
) -> None:
    monkeypatch.setattr(step, "_kept_chunks", lambda _: kept)
    monkeypatch.setattr(step, "_could_not_read", lambda _: torn)
    run.plan = replace(run.plan, state=Version("state/versions/x.json", "ab") if has_state else None)
    _distrust(run)
    notes = [info.key for info in run.state.list_level("state/distrusted/").objects]
    assert len(notes) == (why is not None)
    assert all(f'"{why}"'.encode() in run.state.get(key) for key in notes)


def test_run_is_complete_when_every_step_before_the_state_is(run: Run) -> None:
    for output in StateOutput.INPUTS:
        assert not _is_complete(run)
        done(run, output.STEP)
    assert _is_complete(run)
    run.folder.writer.put(f"{MarkOutput.STEP}/_SUCCESS.json", b"{}")
    assert not _is_complete(run)


def test_report_is_written_although_the_state_could_not_move_on_which_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def away(_: Run) -> None:
        raise UnavailableError("the store is away")

    monkeypatch.setattr(step, "_is_complete", lambda _: True)
    monkeypatch.setattr(step, "advance_state", away)
    monkeypatch.setattr(step, "_distrust", lambda _: asked.append("distrust"))
    for name in ("keep_small", "clean_up"):
        monkeypatch.setattr(step, name, lambda *_: pytest.fail("the state did not move on"))
    with pytest.raises(UnavailableError):
        save_report(run)
    assert run.folder.read_json("report.json")["outcome"]
    assert asked == ["distrust"]
    monkeypatch.setattr(step, "advance_state", lambda _: None)
    assert save_report(run).status == "success"


def test_state_moves_on_before_own_files_are_tidied_and_the_report_is_written_last(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, now, asked = Version("state/versions/x.json", "ab"), utc_now(), list[str]()
    moved = StepSummary(
        StateOutput.STEP, run.plan.run_id, "success", now, now, details={"version": to_json(version)}
    )

    def compacted(_: Run, given: Version) -> None:
        assert given == version
        asked.append("keep_small")

    monkeypatch.setattr(step, "_is_complete", lambda _: True)
    monkeypatch.setattr(step, "advance_state", lambda _: asked.append("advance") or moved)
    monkeypatch.setattr(step, "keep_small", compacted)
    for name in ("clean_up", "_distrust", "write_report"):
        monkeypatch.setattr(step, name, lambda *_, name=name: asked.append(name))
    save_report(run)
    assert asked == ["advance", "keep_small", "clean_up", "_distrust", "write_report"]


def test_run_that_is_not_at_its_end_moves_no_state(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "advance_state", lambda _: pytest.fail("it is not complete"))
    assert save_report(run).details["outcome"] == "unfinished"
