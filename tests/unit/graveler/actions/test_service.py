"""Hooks of a repository run on its events, refuse what they must approve, and leave results and logs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dredge.graveler.actions import HookAbortedError
from dredge.graveler.catalog import Settings
from dredge.graveler.catalog.events import Event, EventType
from dredge.graveler.errors import (
    BranchExistsError,
    DataNotFoundError,
    NoChangesError,
    TagExistsError,
)
from tests.support.actions import ALL_EVENTS, CALLS, EVENTS, action, repository_with, runs, state
from tests.support.http import Asked, Script
from tests.support.lakes import make_lake, with_settings


def told(asked: Asked) -> dict[str, object]:
    """What a hook was told, without the time."""
    return {key: value for key, value in asked.body.items() if key != "event_time"}


@pytest.mark.parametrize("change", CALLS)
def test_hooks_run_on_each_event_of_a_change_and_know_it(checks: Script, change: str) -> None:
    lake = repository_with(action(checks.endpoint, *ALL_EVENTS), change)
    head = lake.catalog.branches.get_branch(lake.repository, "main").commit_id
    side = lake.catalog.branches.get_branch(lake.repository, "side").commit_id
    before = state(lake)
    CALLS[change](lake)
    assert state(lake) != before
    assert [asked.body["event_type"] for asked in checks.asked] == EVENTS[change]
    assert runs(lake) == [(name, True) for name in EVENTS[change]]
    made = lake.catalog.branches.get_branch(lake.repository, "main").commit_id
    common = {"action_name": "checks", "hook_id": "check", "repository_id": lake.repository}
    first, last = told(checks.asked[0]), told(checks.asked[-1])
    expected: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "commit": (
            {
                "branch_id": "main",
                "source_ref": "main",
                "commit_message": "new",
                "committer": "tester",
                "commit_metadata": {"k": "v"},
            },
            {"source_ref": made, "commit_id": made, "commit_metadata": {"k": "v"}},
        ),
        "merge": (
            {"branch_id": "main", "source_ref": side, "merge_source": "side", "commit_id": made},
            {"source_ref": made, "merge_source": "side", "commit_id": made},
        ),
        "revert": ({"source_ref": "main", "commit_message": f"Revert {head}"}, {"commit_id": made}),
        "cherry-pick": ({"source_ref": "main", "commit_message": "on the side"}, {"commit_id": made}),
        "create-branch": ({"branch_id": "new", "source_ref": "main~0", "commit_id": head},) * 2,
        "delete-branch": ({"branch_id": "side", "source_ref": side},) * 2,
        "create-tag": ({"tag_id": "new", "source_ref": head, "commit_id": head},) * 2,
        "delete-tag": ({"tag_id": "v1", "source_ref": head, "commit_id": head},) * 2,
    }
    for found, wanted in zip((first, last), expected[change], strict=True):
        assert found.items() >= (common | wanted).items()
    assert ("commit_id" in first) is (change not in ("commit", "revert", "cherry-pick", "delete-branch"))


@pytest.mark.parametrize("change", CALLS)
def test_a_hook_that_fails_refuses_the_change_and_nothing_is_changed(checks: Script, change: str) -> None:
    event = EVENTS[change][-2]
    lake = repository_with(action(checks.endpoint, event, EVENTS[change][-1]), change)
    checks.answer = lambda _: (500, b"no")
    before = state(lake)
    with pytest.raises(HookAbortedError) as refused:
        CALLS[change](lake)
    assert refused.value.status == 412
    assert state(lake) == before
    [run] = lake.catalog.actions.list_repository_runs(lake.repository).results
    doing = {"merge": "update branch main: ", "revert": "update branch: ", "cherry-pick": "update branch: "}
    assert str(refused.value) == (
        f"{doing.get(change, '')}{event} hook aborted, run id '{run.id}': 1 error occurred:\n"
        "\t* hook run id '0000_0000' failed on action 'checks' hook 'check': action failed: "
        "webhook request failed (status code: 500)\n\n"
    )
    assert runs(lake) == [(event, False)]
    output = lake.catalog.actions.get_run_hook_output(lake.repository, run.id, "0000_0000")
    assert output is not None
    assert output.endswith(b"noError: action failed: webhook request failed (status code: 500)\n")
    lake = with_settings(lake, actions=False)
    CALLS[change](lake)
    assert state(lake) != before  # nothing of the refused change is in the way


@pytest.mark.parametrize("change", CALLS)
def test_a_hook_after_a_change_never_fails_it(checks: Script, change: str) -> None:
    lake = repository_with(action(checks.endpoint, EVENTS[change][-1]), change)
    checks.answer = lambda _: None
    before = state(lake)
    CALLS[change](lake)
    assert state(lake) != before
    assert runs(lake) == [(EVENTS[change][-1], False)]


def test_what_breaks_after_a_change_never_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake(settings=Settings(background=False, actions=True))
    lake.upload("_lakefs_actions/a", b"name: [")
    actions = lake.catalog.actions
    monkeypatch.setattr(actions, "before", lambda event: "run")
    lake.commit("the action file of the commit cannot be read")
    lake.upload("_lakefs_actions/a", action("http://127.0.0.1:1", "post-commit"))
    monkeypatch.setattr(actions._results, "save", lambda *_: 1 / 0)
    lake.commit("the results cannot be kept")
    assert lake.paths() == ["_lakefs_actions/a"]


def test_a_refused_merge_can_be_made_once_the_hook_approves(checks: Script) -> None:
    lake = repository_with(action(checks.endpoint, "pre-merge"))
    checks.answer = lambda _: (403, b"")
    for _ in range(2):
        with pytest.raises(HookAbortedError):
            CALLS["merge"](lake)
    checks.answer = lambda _: (204, b"")
    CALLS["merge"](lake)
    assert lake.read("s") == b"content"


def test_no_hooks_run_in_a_read_only_repository() -> None:
    lake = repository_with(action("http://127.0.0.1:1", "pre-create-tag"))
    actions = lake.catalog.actions
    repository = replace(lake.catalog.repositories.get_repository(lake.repository), read_only=True)
    actions.before(Event(EventType.PRE_CREATE_TAG, repository, "main"))
    assert not runs(lake)


def test_what_is_there_already_is_refused_before_a_hook_is_asked(checks: Script) -> None:
    lake = repository_with(action(checks.endpoint, *ALL_EVENTS))
    with pytest.raises(BranchExistsError):
        lake.catalog.branches.create_branch(lake.repository, "side", "main")
    with pytest.raises(TagExistsError):
        lake.catalog.tags.create_tag(lake.repository, "v1", "main")
    assert not checks.asked


def test_a_commit_has_the_time_at_which_it_began_however_long_its_hooks_take(checks: Script) -> None:
    lake = repository_with(action(checks.endpoint, "prepare-commit", "pre-commit"), "commit")
    began = lake.clock.now

    def slow(_: Asked) -> tuple[int, bytes]:
        lake.clock.advance(hours=1)
        return 200, b""

    checks.answer = slow
    assert lake.commit().creation_date == began
    [second, first] = lake.catalog.actions.list_repository_runs(lake.repository).results
    assert (first.event, first.start, first.end) == ("prepare-commit", began, began + timedelta(hours=1))
    assert second.event == "pre-commit"


def test_a_commit_without_changes_asks_first_and_is_refused_then(checks: Script) -> None:
    lake = repository_with(action(checks.endpoint, "pre-commit", "post-commit"))
    with pytest.raises(NoChangesError):
        lake.commit()
    assert [each.body["event_type"] for each in checks.asked] == ["pre-commit"]


def test_the_run_before_a_commit_and_its_manifest_learn_the_commit(checks: Script) -> None:
    lake = repository_with(action(checks.endpoint, *ALL_EVENTS), "commit")
    made = lake.commit()
    found = lake.catalog.actions.list_repository_runs(lake.repository, commit_id=made.id).results
    assert {each.event for each in found} == {"pre-commit", "post-commit"}
    before = next(each for each in found if each.event == "pre-commit")
    manifest = json.loads(lake.objects.get(f"_lakefs/actions/log/{before.id}/run.manifest"))
    assert manifest == {
        "run": {
            "run_id": before.id,
            "branch_id": "main",
            "source_ref": "main",
            "event_type": "pre-commit",
            "commit_id": made.id,
            "start_time": "2026-01-02T03:04:05Z",
            "end_time": "2026-01-02T03:04:05Z",
            "passed": True,
        },
        "hooks": [
            {
                "run_id": before.id,
                "hook_run_id": "0000_0000",
                "hook_id": "check",
                "action_name": "checks",
                "start_time": "2026-01-02T03:04:05Z",
                "end_time": "2026-01-02T03:04:05Z",
                "passed": True,
            }
        ],
    }
    assert f"_lakefs/actions/log/{before.id}/0000_0000.log" in lake.keys("_lakefs/actions/")


def test_a_log_that_is_gone_from_the_store_is_410(checks: Script) -> None:
    lake = repository_with(action(checks.endpoint, "pre-create-tag"))
    CALLS["create-tag"](lake)
    service = lake.catalog.actions
    [run] = service.list_repository_runs(lake.repository).results
    other = make_lake()
    other.catalog.actions._results = service._results
    with pytest.raises(DataNotFoundError):
        other.catalog.actions.get_run_hook_output(lake.repository, run.id, "0000_0000")
