"""What a repository has a hook for is refused, since no hook is run; everything else goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.graveler.catalog import Settings
from dredge.graveler.errors import UnsupportedError
from tests.support.lakes import Lake, make_lake, with_settings

CALLS: dict[str, Callable[[Lake], object]] = {
    "commit": lambda lake: lake.commit("new"),
    "merge": lambda lake: lake.catalog.merges.merge(lake.repository, "side", "main", committer="t"),
    "revert": lambda lake: lake.catalog.merges.revert(lake.repository, "main", "main", committer="t"),
    "cherry-pick": lambda lake: lake.catalog.merges.cherry_pick(
        lake.repository, "main", "side", committer="t"
    ),
    "create-branch": lambda lake: lake.catalog.branches.create_branch(lake.repository, "new", "main"),
    "delete-branch": lambda lake: lake.catalog.branches.delete_branch(lake.repository, "side"),
    "create-tag": lambda lake: lake.catalog.tags.create_tag(lake.repository, "new", "main"),
    "delete-tag": lambda lake: lake.catalog.tags.delete_tag(lake.repository, "v1"),
}


def repository_with(content: str, *, actions: bool = True, change: str = "") -> Lake:
    """A repository whose every ref has an action file."""
    lake = make_lake(settings=Settings(background=False))
    lake.upload("_lakefs_actions/checks.yaml", content.encode())
    lake.commit()
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("s", branch="side")
    lake.commit("on the side", "side")
    lake.catalog.tags.create_tag(lake.repository, "v1", "main")
    if change == "commit":
        lake.upload("staged")
    return with_settings(lake, actions=actions)


def state(lake: Lake) -> object:
    refs = lake.catalog.branches.list_branches(lake.repository, show_hidden=True).results
    return refs, lake.catalog.tags.list_tags(lake.repository).results


@pytest.mark.parametrize("when", ["pre", "post"])
@pytest.mark.parametrize("change", CALLS)
def test_a_change_that_has_a_hook_is_refused_and_nothing_is_changed(change: str, when: str) -> None:
    lake = repository_with(f"on:\n  {when}-{change}: {{}}\nhooks: []\n", change=change)
    before = state(lake)
    with pytest.raises(UnsupportedError, match="hooks are not implemented") as refused:
        CALLS[change](lake)
    assert refused.value.status == 501
    assert state(lake) == before


@pytest.mark.parametrize("change", CALLS)
def test_a_change_that_no_hook_is_for_is_made(change: str) -> None:
    others = "".join(f"  pre-{each}: {{}}\n" for each in CALLS if each != change)
    lake = repository_with(f"name: others\non:\n{others}", change=change)
    before = state(lake)
    CALLS[change](lake)
    assert state(lake) != before


def test_a_staged_action_file_counts_for_its_own_commit_and_one_that_cannot_be_read_for_everything() -> None:
    lake = make_lake(settings=Settings(background=False, actions=True))
    lake.upload("_lakefs_actions/new.yml", b"on: [pre-commit]")
    with pytest.raises(UnsupportedError, match=r"_lakefs_actions/new\.yml"):
        lake.commit()
    lake.upload("_lakefs_actions/new.yml", b"on: {pre-merge: {}}")
    lake.commit()
    lake.upload("_lakefs_actions/bad.yaml", b"{")
    with pytest.raises(UnsupportedError, match=r"bad\.yaml"):
        lake.commit()


def test_other_files_and_ignored_actions_are_no_hooks() -> None:
    lake = make_lake(settings=Settings(background=False, actions=True))
    for path in ("_lakefs_actions/README.md", "_lakefs_action", "a/_lakefs_actions/x.yaml", "zz"):
        lake.upload(path, b"on: {pre-commit: {}}")
    lake.commit()
    ignoring = repository_with("on: {pre-commit: {}}", actions=False, change="commit")
    ignoring.commit()
