from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.graveler.refs.records import Branch, Commit
from dredge.graveler.retention.active import active_commits
from dredge.graveler.retention.rules import Rules
from tests.support.lakes import START


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Commit], list[Branch], Rules]:
    names = draw(st.permutations([f"{number:02x}" for number in range(draw(st.integers(1, 10)))]))
    commits: list[Commit] = []
    for name in names:
        earlier = [commit.id for commit in commits]
        parents = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        age = timedelta(days=draw(st.integers(-5, 60)))
        commits.append(
            Commit(name, "", "", START - age, "", parents=tuple(parents), version=draw(st.integers(0, 1)))
        )
    heads = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    branches = [Branch(f"b{number}", head, "") for number, head in enumerate(heads)]
    days = st.integers(0, 60)
    rules = Rules(draw(days), {branch.name: draw(days) for branch in branches if draw(st.booleans())})
    return commits, branches, rules


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
