"""What the guards found decides whether a run goes on, asks a person, only warns, or is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection.check_limits.step import GUARD, _conclude
from dredge.icechunk.collection.run import Run
from dredge.runs.limits import Finding
from dredge.runs.perform import StepRecord
from dredge.runs.tries import StepTry
from tests.support.icechunk_repo import Repo

PASSED = Finding("live_not_empty", "passed", 1, None, "fine")
CANARY = Finding("canaries", "refused", 1, 0, "a canary")
CHUNK = Finding("chunks_present", "refused", 1, 0, "no chunk")
LOG = Finding("transactions_present", "refused", 1, 0, "no log")
OVER = Finding("max_objects", "awaiting_approval", 9, 3, "too many")


def concluded(run: Run, findings: tuple[Finding, ...], approval: str, dry_run: bool) -> tuple[str, str]:
    """How the step ends, and in which words."""
    run.plan = replace(run.plan, config=replace(run.plan.config, approval=approval, dry_run=dry_run))
    record = StepRecord({}, StepTry(run.folder.writer, "check_limits", 1))
    _conclude(run, record, [PASSED, *findings, PASSED])
    if record.error is not None:
        assert record.status == "refused"
        assert isinstance(record.error, RefusedError)
        assert f"Read {run.folder.uri}/{GUARD}." in str(record.error)
        return "refused", str(record.error)
    assert record.status == "success"
    return ("warned" if record.warnings else "goes on"), "".join(record.warnings)


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan()


@pytest.mark.parametrize("approval", ["never", "over_limits", "always"])
def test_run_whose_guards_all_passed_goes_on_without_a_word(run: Run, approval: str) -> None:
    assert concluded(run, (), approval, dry_run=False) == ("goes on", "")
    assert concluded(run, (), approval, dry_run=True) == ("goes on", "")


@pytest.mark.parametrize(
    "findings", [(CANARY,), (CANARY, OVER), (CHUNK,), (CHUNK, LOG), (OVER, CHUNK, CANARY)]
)
@pytest.mark.parametrize("approval", ["never", "over_limits", "always"])
def test_run_that_a_guard_stopped_is_refused_whoever_would_be_asked(
    run: Run, findings: tuple[Finding, ...], approval: str
) -> None:
    ending, words = concluded(run, findings, approval, dry_run=False)
    assert ending == "refused"
    for finding in findings:
        assert (f"{finding.rule}: {finding.text}" in words) is (finding is not OVER)
    assert PASSED.text not in words


def test_run_beyond_its_limits_goes_on_to_ask_or_is_refused_where_nobody_is_to_be_asked(run: Run) -> None:
    assert concluded(run, (OVER,), "over_limits", dry_run=False) == ("goes on", "")
    assert concluded(run, (OVER,), "always", dry_run=False) == ("goes on", "")
    ending, words = concluded(run, (OVER,), "never", dry_run=False)
    assert ending == "refused"
    assert "max_objects" in words


@pytest.mark.parametrize(
    ("findings", "approval", "would"),
    [
        ((OVER,), "never", "be refused"),
        ((OVER,), "over_limits", "await approval"),
        ((CHUNK,), "over_limits", "be refused"),
        ((CHUNK, LOG), "never", "be refused"),
        ((LOG, OVER), "over_limits", "be refused"),
    ],
)
def test_dry_run_only_warns_of_a_limit_and_of_what_is_missing(
    run: Run, findings: tuple[Finding, ...], approval: str, would: str
) -> None:
    ending, words = concluded(run, findings, approval, dry_run=True)
    assert ending == "warned"
    assert words.startswith(f"a run that deletes would {would}: ")


@pytest.mark.parametrize("findings", [(CANARY,), (CHUNK, CANARY), (CANARY, OVER)])
def test_dry_run_is_refused_where_something_else_could_not_be_proved(
    run: Run, findings: tuple[Finding, ...]
) -> None:
    assert concluded(run, findings, "over_limits", dry_run=True)[0] == "refused"
