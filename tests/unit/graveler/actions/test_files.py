"""Which files are action files, and of which ref."""

from __future__ import annotations

import pytest

from dredge.graveler.actions import ActionFileError
from dredge.graveler.catalog import Settings
from dredge.graveler.catalog.events import Event, EventType
from dredge.graveler.errors import (
    CommitNotFoundError,
)
from tests.support.actions import CALLS, action, repository_with, runs
from tests.support.http import Script
from tests.support.lakes import make_lake, with_settings


def test_staged_files_count_for_their_own_commit_those_of_the_source_for_a_merge(checks: Script) -> None:
    lake = make_lake(settings=Settings(background=False, actions=True))
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("_lakefs_actions/a.yaml", action(checks.endpoint, "pre-commit", "pre-merge"), "side")
    lake.commit(branch="side")
    assert [each.body["event_type"] for each in checks.asked] == ["pre-commit"]
    CALLS["merge"](lake)
    assert [each.body["branch_id"] for each in checks.asked] == ["side", "main"]
    lake.catalog.objects.delete_object(lake.repository, "main", "_lakefs_actions/a.yaml")
    lake.commit("without hooks, so none run")
    assert len(checks.asked) == 2


@pytest.mark.parametrize(
    ("path", "content", "why"),
    [
        ("_lakefs_actions/bad", b"name: xy", "* parsing file _lakefs_actions/bad: 'on' is required"),
        (
            "_lakefs_actions/a/b.yaml",
            b"",
            "* parsing file _lakefs_actions/a/b.yaml: action files lie directly",
        ),
        ("_lakefs_actions/x", action("", "post-merge"), "action name 'checks' already loaded"),
    ],
)
def test_a_mistake_in_any_action_file_refuses_every_change(path: str, content: bytes, why: str) -> None:
    lake = make_lake(settings=Settings(background=False, actions=True))
    lake.upload("_lakefs_actions/good", action("", "post-merge"))
    lake.upload(path, content)
    with pytest.raises(ActionFileError) as refused:
        lake.commit()
    assert str(refused.value).startswith("prepare-commit hook aborted, run id '")
    assert why in str(refused.value)
    assert not runs(lake)


def test_files_elsewhere_are_no_actions_and_none_count_where_actions_are_off(checks: Script) -> None:
    lake = make_lake(settings=Settings(background=False, actions=True))
    for path in ("_lakefs_action", "a/_lakefs_actions/x.yaml", "_lakefs_actionsx", "zz"):
        lake.upload(path, b"no action")
    lake.commit()
    ignoring = with_settings(repository_with(b"no action"), actions=False)
    CALLS["create-tag"](ignoring)
    assert not checks.asked


def test_a_poisoned_ref_is_a_missing_commit_and_no_pass() -> None:
    lake = repository_with(action("", "pre-merge"))
    repository = lake.catalog.repositories.get_repository(lake.repository)
    with pytest.raises(CommitNotFoundError, match="pre-merge hook aborted, run id"):
        lake.catalog.actions.before(Event(EventType.PRE_MERGE, repository, "a" * 64))
