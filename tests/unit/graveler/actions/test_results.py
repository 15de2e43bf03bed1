"""Records of runs: where a real server looks for them, pages, filters."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dredge.graveler import messages
from dredge.graveler.actions.results import PARTITION, HookResult, Results, RunResult
from dredge.graveler.actions.text import NEVER
from dredge.graveler.errors import BadRequestError, MissingError
from dredge.graveler.xid import new_countdown_xid
from dredge.kv import open_store
from dredge.trash.names import countdown_time
from tests.support.lakes import START

HOOK = HookResult("0000_0000", "h1", "checks", START, START + timedelta(seconds=1), passed=True)
SKIPPED = HookResult("0000_0001", "h2", "checks", NEVER, NEVER, passed=False)


def run(number: int, branch: str = "main", commit_id: str = "") -> RunResult:
    when = START + timedelta(seconds=number)
    return RunResult(
        new_countdown_xid(when), "pre-commit", branch, branch, commit_id, when, when, passed=True
    )


def test_rows_are_where_a_real_server_has_them() -> None:
    kv = open_store("memory://")
    results = Results(kv)
    made = run(1, commit_id="c1")
    results.save("lake", made, [HOOK, SKIPPED])
    rows = {entry.key.decode(): entry.value for entry in kv.scan(PARTITION)}
    assert set(rows) == {
        f"repos/lake/runs/{made.id}",
        f"repos/lake/tasks/{made.id}/0000_0000",
        f"repos/lake/tasks/{made.id}/0000_0001",
        f"repos/lake/branches/main/{made.id}",
        f"repos/lake/commits/c1/{made.id}",
    }
    index = messages.decode(messages.SecondaryIndex, rows[f"repos/lake/branches/main/{made.id}"], "index")
    assert index.primary_key.decode() == f"repos/lake/runs/{made.id}"
    skipped = messages.decode(messages.TaskResultData, rows[f"repos/lake/tasks/{made.id}/0000_0001"], "task")
    assert skipped.start_time.seconds == -62135596800  # the year 1: what Go takes for no time
    assert results.run("lake", made.id) == made
    assert list(results.hooks("lake", made.id).results) == [HOOK, SKIPPED]
    assert results.hook("lake", made.id, "0000_0001").skipped


def test_runs_are_listed_newest_first_by_page_branch_and_commit() -> None:
    results = Results(open_store("memory://"))
    made = [run(number, "main" if number % 2 else "main2", f"c{number // 2}") for number in range(6)]
    for each in made:
        results.save("lake", each, [HOOK])
    results.save("lake2", run(9), [HOOK])
    newest = [each.id for each in reversed(made)]
    first = results.runs("lake", amount=4)
    assert [each.id for each in first.results] == newest[:4]
    assert (first.has_more, first.next_offset) == (True, newest[3])
    second = results.runs("lake", after=first.next_offset, amount=4)
    assert ([each.id for each in second.results], second.has_more) == (newest[4:], False)
    assert [each.branch for each in results.runs("lake", branch="main").results] == ["main"] * 3
    assert {each.id for each in results.runs("lake", commit_id="c1").results} == {made[2].id, made[3].id}
    assert not results.runs("lake", branch="mai").results
    with pytest.raises(BadRequestError, match="parameters conflict"):
        results.runs("lake", branch="main", commit_id="c1")


def test_a_run_learns_its_commit_once() -> None:
    results = Results(open_store("memory://"))
    made = run(1)
    results.save("lake", made, [HOOK])
    changed = results.add_commit("lake", made.id, "c1")
    assert changed is not None
    assert (changed[0].commit_id, changed[1]) == ("c1", [HOOK])
    assert [each.id for each in results.runs("lake", commit_id="c1").results] == [made.id]
    assert results.add_commit("lake", made.id, "c1") is None
    assert results.add_commit("lake", "no-such-run", "c1") is None


def test_what_is_not_there() -> None:
    results = Results(open_store("memory://"))
    with pytest.raises(MissingError):
        results.run("lake", "x")
    with pytest.raises(MissingError):
        results.hook("lake", "x", "0000_0000")
    assert not results.hooks("lake", "x").results


def test_the_cleaner_of_trash_reads_the_age_in_the_ids_of_runs() -> None:
    assert countdown_time(new_countdown_xid(START)) == START
