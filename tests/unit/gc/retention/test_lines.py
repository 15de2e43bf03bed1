"""Lines of commits: the same commits are active as by the walk that retention is defined by, and the end is the right
one."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.gc.retention import FOREVER, find_lines
from dredge.lakefs import Commit, Ref, Rules
from dredge.lakefs.files.records import Branch
from lakefs_embedded.catalog import garbage
from lakefs_embedded.refs.records import Commit as Commit_

NOW = datetime(2026, 3, 1, tzinfo=UTC)
commits = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 40), st.booleans()),
    min_size=1,
    max_size=12,
)
heads = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 11)), max_size=3, unique_by=lambda item: item[0]
)


def graph_of(rows: list[tuple[int, int, int, bool]]) -> dict[str, Commit]:
    made: dict[str, Commit] = {}
    for number, (first, second, age, old) in enumerate(rows):
        parents = tuple(dict.fromkeys(f"{item:02d}" for item in (first, second) if item < number))
        made[f"{number:02d}"] = Commit(
            f"{number:02d}", parents, NOW - timedelta(days=age), "", 0 if old else 1
        )
    return made


def by_the_walk(graph: dict[str, Commit], branches: list[Ref], rules: Rules, now: datetime) -> set[str]:
    plain = [
        Commit_(
            id=item.id,
            committer="",
            message="",
            creation_date=item.created_at,
            metarange_id="",
            parents=item.parents,
            version=item.version,
        )
        for item in graph.values()
    ]
    known = [Branch(branch.id, branch.commit_id, "") for branch in branches]
    return set(
        garbage.active_commits(plain, known, garbage.Rules(rules.default_retention_days, rules.branches), now)
    )


@settings(max_examples=150)
@given(rows=commits, at=heads, default=st.integers(0, 30), own=st.integers(0, 40))
def test_lines_keep_what_the_walk_keeps_now_and_until_the_end_that_they_tell(
    rows: list[tuple[int, int, int, bool]], at: list[tuple[str, int]], default: int, own: int
) -> None:
    graph = graph_of(rows)
    branches = [Ref(name, f"{number % len(graph):02d}") for name, number in at]
    rules = Rules(default, {"a": own})
    lines = find_lines(graph, branches, rules, NOW)
    assert {item for item, line in lines.items() if line.is_active(NOW)} == by_the_walk(
        graph, branches, rules, NOW
    )
    for item, line in lines.items():
        if line.until is not None and not line.heads and line.until > NOW:
            just_before = line.until - timedelta(microseconds=1)
            assert item in by_the_walk(graph, branches, rules, just_before)
            assert item not in by_the_walk(graph, branches, rules, line.until)


@settings(max_examples=100)
@given(rows=commits, at=heads, default=st.integers(0, 30), own=st.integers(0, 40))
def test_the_one_branch_that_keeps_a_commit_is_told_only_where_it_is_alone(
    rows: list[tuple[int, int, int, bool]], at: list[tuple[str, int]], default: int, own: int
) -> None:
    graph = graph_of(rows)
    branches = [Ref(name, f"{number % len(graph):02d}") for name, number in at]
    rules = Rules(default, {"a": own})
    for item, line in find_lines(graph, branches, rules, NOW).items():
        if line.keeper is None:
            continue
        others = [branch for branch in branches if branch.id != line.keeper]
        # The branch goes, and what only it leads to is of the oldest kind: no default rule keeps it.
        never = Rules(-10_000, {branch.id: rules.branches.get(branch.id, default) for branch in others})
        assert item not in by_the_walk(graph, others, never, NOW)


def test_without_rules_nothing_ever_ends() -> None:
    graph = graph_of([(9, 9, 40, False), (0, 9, 30, False)])
    lines = find_lines(graph, [Ref("main", "01")], None, NOW)
    assert (lines["00"].until, lines["00"].keeper, lines["01"].heads) == (FOREVER, "main", ["main"])
