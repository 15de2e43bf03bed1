import pytest

from lakefs_embedded.catalog import Commit, Rules, Settings
from lakefs_embedded.errors import (
    CommitNotFoundError,
    DirtyBranchError,
    MergeConflictError,
    NoChangesError,
    ParentNumberError,
    RevertParentError,
)
from tests.support.lakes import Lake, make_lake


def put(lake: Lake, branch: str, *items: str) -> Commit:
    """`path=content` uploads, `-path` deletes; then a commit."""
    lake.clock.advance(minutes=1)
    for item in items:
        path, is_put, content = item.partition("=")
        if is_put:
            lake.upload(path, content.encode(), branch=branch)
        else:
            lake.catalog.objects.delete_object(lake.repository, branch, path.removeprefix("-"))
    return lake.commit(",".join(items), branch)


def content(lake: Lake, ref: str = "main") -> dict[str, str]:
    return {path: lake.read(path, ref).decode() for path in lake.paths(ref)}


@pytest.fixture
def lake() -> Lake:
    """base: a b c. main changes a, adds m; side changes b, deletes c, adds s."""
    lake = make_lake()
    put(lake, "main", "a=0", "b=0", "c=0")
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    put(lake, "main", "a=main", "m=main")
    put(lake, "side", "b=side", "-c", "s=side")
    return lake


def merge(lake: Lake, source: str = "side", destination: str = "main", **more: object) -> Commit:
    return lake.catalog.merges.merge(lake.repository, source, destination, committer="tester", **more)  # type: ignore[arg-type]


MERGED = {"a": "main", "b": "side", "m": "main", "s": "side"}


def test_a_merge_brings_what_the_source_changed(lake: Lake) -> None:
    main, side = (lake.catalog.commits.get_commit(lake.repository, ref) for ref in ("main", "side"))
    commit = merge(lake, metadata={"k": "v"})
    assert content(lake) == content(lake, "main@") == MERGED
    assert commit.parents == (main.id, side.id)
    assert commit.metadata == {"k": "v", ".lakefs.merge.strategy": "default"}
    assert commit.message == "Merge 'side' into 'main'"
    assert commit.generation == max(main.generation, side.generation) + 1
    assert content(lake, "side") == {"a": "0", "b": "side", "s": "side"}


@pytest.mark.parametrize(
    ("strategy", "expected", "name"),
    [("dest-wins", "main", "dest-wins"), ("source-wins", "side", "source-wins")],
)
def test_a_strategy_says_who_wins_a_conflict(lake: Lake, strategy: str, expected: str, name: str) -> None:
    put(lake, "side", "a=side", "m=side")
    commit = merge(lake, strategy=strategy)
    assert content(lake) == MERGED | {"a": expected, "m": expected}
    assert commit.metadata[".lakefs.merge.strategy"] == name


def test_a_conflict_merges_nothing_and_leaves_one_sealed_token(lake: Lake) -> None:
    put(lake, "side", "a=side")
    before = content(lake)
    for tries in (1, 2):
        with pytest.raises(MergeConflictError) as caught:
            merge(lake)
        assert (caught.value.status, str(caught.value)) == (409, "update branch main: conflict found")
        assert len(lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens) == tries
    assert content(lake) == before


def test_a_dirty_destination_is_refused_and_left_as_it_was(lake: Lake) -> None:
    lake.upload("staged")
    branch = lake.catalog.branches.get_branch(lake.repository, "main")
    with pytest.raises(DirtyBranchError) as caught:
        merge(lake)
    assert caught.value.status == 400
    assert lake.catalog.branches.get_branch(lake.repository, "main") == branch


def test_a_revert_undoes_one_commit(lake: Lake) -> None:
    commit = lake.catalog.commits.get_commit(lake.repository, "main")
    put(lake, "main", "later=1")
    reverted = lake.catalog.merges.revert(lake.repository, "main", "main~1", committer="tester")
    assert content(lake) == {"a": "0", "b": "0", "c": "0", "later": "1"}
    assert reverted.message == f"Revert {commit.id}"
    assert (reverted.metadata, len(reverted.parents)) == ({}, 1)
    with pytest.raises(NoChangesError):
        lake.catalog.merges.revert(lake.repository, "main", commit.id, committer="tester")


def test_a_merge_is_reverted_towards_a_named_parent(lake: Lake) -> None:
    merge(lake)
    with pytest.raises(RevertParentError) as caught:
        lake.catalog.merges.revert(lake.repository, "main", "main", committer="tester")
    assert caught.value.status == 409
    with pytest.raises(ParentNumberError):
        lake.catalog.merges.revert(lake.repository, "main", "main", committer="tester", parent_number=3)
    lake.catalog.merges.revert(lake.repository, "main", "main", committer="tester", parent_number=1)
    assert content(lake) == {"a": "main", "b": "0", "c": "0", "m": "main"}


def test_a_cherry_pick_brings_one_commit_and_says_from_where(lake: Lake) -> None:
    put(lake, "side", "s2=side")
    picked = lake.catalog.commits.get_commit(lake.repository, "side~1")
    commit = lake.catalog.merges.cherry_pick(lake.repository, "main", "side~1", committer="other")
    assert content(lake) == MERGED
    assert (commit.message, commit.committer) == (picked.message, "other")
    assert commit.metadata == {"cherry-pick-origin": picked.id, "cherry-pick-committer": "tester"}
    assert len(commit.parents) == 1


def test_a_cherry_pick_of_what_is_there_already_is_a_commit(lake: Lake) -> None:
    first = lake.catalog.merges.cherry_pick(lake.repository, "main", "side", committer="t")
    again = lake.catalog.merges.cherry_pick(lake.repository, "main", "side", committer="t")
    assert (again.metarange_id, again.parents) == (first.metarange_id, (first.id,))
    empty = lake.commit("empty", "side", allow_empty=True)
    with pytest.raises(NoChangesError):
        lake.catalog.merges.cherry_pick(lake.repository, "main", empty.id, committer="t")


def test_with_the_defect_a_picked_commit_cannot_be_found_by_its_full_id_for_ten_minutes() -> None:
    lake = make_lake(settings=Settings(background=False, defects=frozenset({"cherry_pick_cache"})))
    put(lake, "main", "a=0")
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    picked = put(lake, "side", "b=0")
    lake.catalog.merges.cherry_pick(lake.repository, "main", "side", committer="t")
    for ask in (
        lambda: lake.catalog.commits.get_commit(lake.repository, picked.id),
        lambda: lake.catalog.reading.stat(lake.repository, picked.id, "a"),
        lambda: lake.catalog.branches.create_branch(lake.repository, "broken", picked.id),
    ):
        with pytest.raises(CommitNotFoundError):
            ask()
    assert lake.catalog.commits.get_commit(lake.repository, picked.id[:63]) == picked
    assert lake.catalog.commits.get_commit(lake.repository, "side") == picked
    # The branch is there all the same, and makes every preparation fail.
    assert lake.catalog.branches.get_branch(lake.repository, "broken").commit_id not in ("", picked.id)
    lake.catalog.garbage.set_gc_rules(lake.repository, Rules(1, {}))
    with pytest.raises(CommitNotFoundError):
        lake.catalog.garbage.prepare_commits(lake.repository)
    lake.clock.advance(minutes=10)
    assert lake.catalog.commits.get_commit(lake.repository, picked.id) == picked
