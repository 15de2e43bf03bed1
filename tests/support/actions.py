"""Repositories with action files, and the changes that run their hooks."""

from __future__ import annotations

from collections.abc import Callable

from dredge.graveler.catalog import Settings
from tests.support.lakes import Lake, make_lake, with_settings

EVENTS = {
    "commit": ["prepare-commit", "pre-commit", "post-commit"],
    "merge": ["pre-merge", "post-merge"],
    "revert": ["pre-revert", "post-revert"],
    "cherry-pick": ["pre-cherry-pick", "post-cherry-pick"],
    "create-branch": ["pre-create-branch", "post-create-branch"],
    "delete-branch": ["pre-delete-branch", "post-delete-branch"],
    "create-tag": ["pre-create-tag", "post-create-tag"],
    "delete-tag": ["pre-delete-tag", "post-delete-tag"],
}
CALLS: dict[str, Callable[[Lake], object]] = {
    "commit": lambda lake: lake.commit("new", metadata={"k": "v"}),
    "merge": lambda lake: lake.catalog.merges.merge(lake.repository, "side", "main", committer="t"),
    "revert": lambda lake: lake.catalog.merges.revert(lake.repository, "main", "main", committer="t"),
    "cherry-pick": lambda lake: lake.catalog.merges.cherry_pick(
        lake.repository, "main", "side", committer="t"
    ),
    "create-branch": lambda lake: lake.catalog.branches.create_branch(lake.repository, "new", "main~0"),
    "delete-branch": lambda lake: lake.catalog.branches.delete_branch(lake.repository, "side"),
    "create-tag": lambda lake: lake.catalog.tags.create_tag(lake.repository, "new", "main"),
    "delete-tag": lambda lake: lake.catalog.tags.delete_tag(lake.repository, "v1"),
}
ALL_EVENTS = [name for names in EVENTS.values() for name in names]


def action(url: str, *events: str, name: str = "checks", hooks: str = "") -> bytes:
    wanted = "\n".join(f"  {each}:" for each in events)
    hook = f"  - {{id: check, type: webhook, properties: {{url: '{url}/check'}}}}\n"
    return f"name: {name}\non:\n{wanted}\nhooks:\n{hooks or hook}".encode()


def repository_with(content: bytes, change: str = "") -> Lake:
    """A repository whose every ref has an action file, made by a server that ignores it."""
    lake = make_lake(settings=Settings(background=False))
    lake.upload("_lakefs_actions/checks", content)
    lake.commit()
    lake.upload("m")
    lake.commit("on main")
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("s", branch="side")
    lake.commit("on the side", "side")
    lake.catalog.tags.create_tag(lake.repository, "v1", "main")
    if change == "commit":
        lake.upload("staged")
    return with_settings(lake, actions=True)


def state(lake: Lake) -> object:
    """Heads of branches, tags, and what readers of main see."""
    branches = lake.catalog.branches.list_branches(lake.repository, show_hidden=True).results
    tags = lake.catalog.tags.list_tags(lake.repository).results
    return {each.name: each.commit_id for each in branches}, tags, lake.paths()


def runs(lake: Lake) -> list[tuple[str, bool]]:
    found = lake.catalog.actions.list_repository_runs(lake.repository).results
    return [(each.event, each.passed) for each in found]
