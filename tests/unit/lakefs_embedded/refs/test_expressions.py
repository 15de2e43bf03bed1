import pytest

from lakefs_embedded.errors import InvalidRefError, RefAmbiguousError
from lakefs_embedded.refs.expressions import Expression, parse
from lakefs_embedded.refs.records import Commit, commit_key
from tests.support.lakes import START, Lake, make_lake


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", Expression("main")),
        ("main~", Expression("main", (("~", 1),))),
        ("main~3^2~", Expression("main", (("~", 3), ("^", 2), ("~", 1)))),
        ("main@", Expression("main", (("@", 1),))),
        ("main$", Expression("main", (("$", 1),))),
        ("main@~2", Expression("main", (("@", 1), ("~", 2)))),
        ("v1.0^0", Expression("v1.0", (("^", 0),))),
    ],
)
def test_expressions_are_parsed(text: str, expected: Expression) -> None:
    assert parse(text) == expected


@pytest.fixture
def lake() -> Lake:
    """main: 0 ← 1 ← 2 ← merge(2, side); side: 1 ← side."""
    lake = make_lake()
    for number in (1, 2):
        lake.upload(f"{number}")
        lake.commit(str(number))
        if number == 1:
            lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("side", branch="side")
    lake.commit("side", "side")
    lake.catalog.merges.merge(lake.repository, "side", "main", committer="tester", message="merge")
    return lake


def message(lake: Lake, ref: str) -> str:
    return lake.catalog.commits.get_commit(lake.repository, ref).message


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("main", "merge"),
        ("main@", "merge"),
        ("main^0", "merge"),
        ("main~", "2"),
        ("main~2", "1"),
        ("main~3", "Repository created"),
        ("main^1", "2"),
        ("main^2", "side"),
        ("main^2~1", "1"),
        ("main~1^", "1"),
        ("side", "side"),
    ],
)
def test_modifiers_lead_along_parents(lake: Lake, ref: str, expected: str) -> None:
    assert message(lake, ref) == expected


def test_a_beginning_of_several_ids_is_ambiguous(lake: Lake) -> None:
    repository = lake.catalog.repositories.get_repository(lake.repository)
    for end in "ab":
        commit_id = "c0ffee" + end * 58
        lake.kv.set(
            repository.partition, commit_key(commit_id), Commit(commit_id, "", "", START, "").encode()
        )
    with pytest.raises(RefAmbiguousError):
        message(lake, "c0ffee")
    assert lake.catalog.commits.get_commit(lake.repository, "c0ffeea").id.endswith("a")


def test_a_branch_wins_over_a_tag_and_a_tag_over_a_beginning(lake: Lake) -> None:
    head = lake.catalog.commits.get_commit(lake.repository, "main")
    lake.catalog.tags.create_tag(lake.repository, head.id[:7], "main~2")
    assert message(lake, head.id[:7]) == "1"
    repository = lake.catalog.repositories.get_repository(lake.repository)
    tag = lake.kv.get(repository.partition, b"tags/" + head.id[:7].encode())
    lake.kv.set(repository.partition, b"tags/side", tag)
    assert message(lake, "side") == "side"


def test_only_branches_have_staging(lake: Lake) -> None:
    lake.catalog.tags.create_tag(lake.repository, "v1", "main")
    for ref in ("v1@", "v1$"):
        with pytest.raises(InvalidRefError):
            lake.catalog.reading.list_entries(lake.repository, ref)
