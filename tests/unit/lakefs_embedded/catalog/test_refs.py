"""Branches, tags, commits, the log."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lakefs_embedded.errors import (
    BranchNotFoundError,
    DirtyBranchError,
    InvalidValueError,
    NoChangesError,
    NotUniqueError,
)
from lakefs_embedded.refs.commits import new_commit
from tests.support.lakes import START, Lake, make_lake


@pytest.fixture
def lake() -> Lake:
    return make_lake()


def names(lake: Lake, **query: object) -> list[str]:
    return [branch.name for branch in lake.catalog.branches.list_branches(lake.repository, **query).results]  # type: ignore[arg-type]


def test_a_hard_reset_is_refused_only_while_sealed_changes_differ_from_the_head(lake: Lake) -> None:
    """A commit that failed for "no changes" leaves its token sealed, with rows that equal the head's."""
    lake.upload("a", b"1")
    first = lake.commit()
    lake.upload("a", b"1")
    with pytest.raises(NoChangesError):
        lake.commit()
    lake.upload("b", b"staged")
    lake.catalog.branches.hard_reset(lake.repository, "main", f"{first.id}~1")
    assert lake.paths("main@") == []
    assert lake.paths() == ["a", "b"]  # what was staged is still there, on the new head
    with pytest.raises(DirtyBranchError):
        lake.catalog.branches.hard_reset(lake.repository, "main", first.id)


def test_trap_22_hidden_branches_are_left_out_of_the_default_listing_only(lake: Lake) -> None:
    lake.catalog.branches.create_branch(lake.repository, "secret", "main", hidden=True)
    lake.upload("a", branch="secret")
    assert names(lake) == ["main"]
    assert names(lake, show_hidden=True) == ["main", "secret"]
    assert lake.catalog.branches.get_branch(lake.repository, "secret").hidden
    lake.commit(branch="secret")
    assert lake.catalog.branches.get_branch(
        lake.repository, "secret"
    ).hidden  # a commit does not lose the mark


def test_deleting_a_branch_drops_its_staging_and_leaves_its_commits(lake: Lake) -> None:
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("a", branch="side")
    commit = lake.commit(branch="side")
    lake.upload("b", branch="side")
    (token,) = lake.tokens("side")
    lake.catalog.branches.delete_branch(lake.repository, "side")
    assert lake.rows(token) == []
    assert lake.paths(commit.id) == ["a"]  # dangling now
    with pytest.raises(BranchNotFoundError):
        lake.catalog.branches.delete_branch(lake.repository, "side")


def test_deleting_the_last_object_gives_the_empty_metarange(lake: Lake) -> None:
    lake.upload("a")
    lake.commit()
    lake.catalog.objects.delete_object(lake.repository, "main", "a")
    commit = lake.commit()
    assert commit.metarange_id == "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"
    assert lake.catalog.commits.read_metadata_object(lake.repository, commit.metarange_id)


def test_a_metarange_can_be_committed_as_it_is(lake: Lake) -> None:
    lake.upload("a")
    first = lake.commit()
    lake.upload("b")
    lake.commit()
    again = lake.commit("again", source_metarange=first.metarange_id)
    assert again.metarange_id == first.metarange_id
    assert lake.paths() == ["a"]


def test_a_commit_record_must_hash_to_its_id(lake: Lake) -> None:
    head = lake.catalog.commits.get_commit(lake.repository, "main")
    made = new_commit(
        committer="c",
        message="m",
        creation_date=START - timedelta(days=99),
        metarange_id="",
        metadata={},
        parents=(head,),
    )
    with pytest.raises(InvalidValueError):
        lake.catalog.commits.create_commit_record(lake.repository, replace(made, message="other"))
    lake.catalog.commits.create_commit_record(lake.repository, replace(made, version=0))
    assert lake.catalog.commits.get_commit(lake.repository, made.id).version == 0
    with pytest.raises(NotUniqueError):
        lake.catalog.commits.create_commit_record(lake.repository, made)


def log(lake: Lake, ref: str = "main", **query: object) -> list[str]:
    return [commit.message for commit in lake.catalog.commits.log(lake.repository, ref, **query).results]  # type: ignore[arg-type]


@pytest.fixture
def history() -> Lake:
    """1 a/x · 2 a/y · side: s b/z · 3 a/x again · merge of side · 4 deletes a/y; one hour apart each."""
    lake = make_lake()

    def step(message: str, path: str, branch: str = "main", content: bytes = b"x") -> None:
        lake.clock.advance(hours=1)
        lake.upload(path, content, branch=branch)
        lake.commit(message, branch)

    step("1", "a/x")
    step("2", "a/y")
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    step("s", "b/z", "side")
    step("3", "a/x", content=b"changed")
    lake.clock.advance(hours=1)
    lake.catalog.merges.merge(lake.repository, "side", "main", committer="t", message="merge")
    lake.clock.advance(hours=1)
    lake.catalog.objects.delete_object(lake.repository, "main", "a/y")
    lake.commit("4")
    return lake


def test_the_log_of_paths_shows_the_commits_that_changed_them(history: Lake) -> None:
    assert log(history, objects=["a/x"]) == ["3", "1"]
    assert log(history, objects=["a/y"]) == ["4", "2"]
    assert log(history, prefixes=["a/"]) == ["4", "3", "2", "1"]
    assert log(history, prefixes=["b/"]) == ["merge", "s"]
    assert log(history, objects=["a/x"], prefixes=["b/"]) == ["merge", "3", "s", "1"]
    assert log(history, objects=["nothing"]) == []
