from __future__ import annotations

from hypothesis import given, settings

from dredge.gc.retention.active import active_commits
from dredge.lakefs.files.gc_files import Rules
from dredge.lakefs.files.records import Branch, Commit
from tests.support.commit_histories import histories
from tests.support.lakes import START


def by_definition(commits: list[Commit], branches: list[Branch], rules: Rules) -> set[str]:
    """Walk every line to its root and remember nothing."""
    by_id = {commit.id: commit for commit in commits}
    heads = {branch.commit_id for branch in branches}
    mains = {commit.main_parent for commit in commits}
    starts = [(by_id[branch.commit_id], rules.threshold(START, branch.name)) for branch in branches]
    starts += [
        (commit, rules.threshold(START, None))
        for commit in commits
        if commit.id not in mains and commit.id not in heads
    ]
    active = set(heads)
    for commit, threshold in starts:
        if commit.id not in heads and commit.creation_date > threshold:
            active.add(commit.id)
        while commit.main_parent is not None:
            if commit.creation_date > threshold:
                active.add(commit.main_parent)
            commit = by_id[commit.main_parent]
    return active


@given(histories())
@settings(deadline=None)
def test_active_commits_are_those_of_the_definition(
    history: tuple[list[Commit], list[Branch], Rules],
) -> None:
    commits, branches, rules = history
    assert set(active_commits(commits, branches, rules, START)) == by_definition(commits, branches, rules)


@given(histories())
@settings(deadline=None)
def test_active_commits_hold_all_that_the_server_finds(
    history: tuple[list[Commit], list[Branch], Rules],
) -> None:
    commits, branches, rules = history
    ours = set(active_commits(commits, branches, rules, START))
    servers = set(active_commits(commits, branches, rules, START, early_stop=True))
    assert servers <= ours
