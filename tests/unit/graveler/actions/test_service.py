"""Hooks of a repository run on its events, refuse what they must approve, and leave results and logs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dredge.graveler.actions import ActionFileError, HookAbortedError, HookSettings
from dredge.graveler.actions.hooks import LOG_CHARACTERS_MAX
from dredge.graveler.catalog import Settings
from dredge.graveler.catalog.events import Event, EventType
from dredge.graveler.errors import (
    BranchExistsError,
    CommitNotFoundError,
    DataNotFoundError,
    NoChangesError,
    TagExistsError,
)
from tests.support.http import Asked, Script, scripted_server
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


@pytest.fixture(scope="module")
def shared() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def checks(shared: Script) -> Script:
    """A server of checks; everything passes."""
    shared.asked.clear()
    shared.answer = lambda _: (200, b"fine")
    return shared


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


def test_a_hook_that_cannot_be_made_refuses_and_no_other_runs(checks: Script) -> None:
    missing = (
        "  - {id: h2, type: webhook, properties: {url: u, headers: {A: '{{ ENV.LAKEFSACTION_NONE }}'}}}\n"
    )
    good = f"  - {{id: h1, type: webhook, properties: {{url: '{checks.endpoint}'}}}}\n"
    lake = repository_with(action("", "pre-create-tag", hooks=good + missing))
    with pytest.raises(ActionFileError, match="LAKEFSACTION_NONE not found: missing env var"):
        CALLS["create-tag"](lake)
    assert not checks.asked


def test_files_elsewhere_are_no_actions_and_none_count_where_actions_are_off(checks: Script) -> None:
    lake = make_lake(settings=Settings(background=False, actions=True))
    for path in ("_lakefs_action", "a/_lakefs_actions/x.yaml", "_lakefs_actionsx", "zz"):
        lake.upload(path, b"no action")
    lake.commit()
    ignoring = with_settings(repository_with(b"no action"), actions=False)
    CALLS["create-tag"](ignoring)
    assert not checks.asked


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


def test_a_log_without_end_is_cut() -> None:
    hook = (
        "  - {id: h1, type: lua, properties: {script: 'for i = 1, 9 do print((\"x\"):rep(1000000)) end'}}\n"
    )
    lake = repository_with(action("", "pre-create-tag", hooks=hook))
    CALLS["create-tag"](lake)
    [run] = lake.catalog.actions.list_repository_runs(lake.repository).results
    output = lake.catalog.actions.get_run_hook_output(lake.repository, run.id, "0000_0000")
    assert output is not None
    assert len(output) < LOG_CHARACTERS_MAX + 100
    assert output.endswith("\n… (cut)\n".encode())


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


def test_hooks_of_an_action_run_one_after_the_other_and_conditions_decide() -> None:
    lua = "  - {{id: {0}, type: lua, if: '{1}', properties: {{script: '{2}'}}}}\n".format
    hooks = (
        lua("h_first", "", "print(1)")
        + lua("h_fails", "true", 'error("on purpose")')
        + lua("h_skipped", "", "print(3)")
        + lua("h_cleanup", "failure()", "print(4)")
        + lua("h_not", "success()", "print(5)")
        + lua("h_also", "true", 'error("again")')
    )
    lake = repository_with(action("", "pre-create-tag", hooks=hooks))
    with pytest.raises(
        HookAbortedError, match=r"hook 'h_fails': action failed: runtime error: .* on purpose"
    ):
        CALLS["create-tag"](lake)
    service = lake.catalog.actions
    [run] = service.list_repository_runs(lake.repository).results
    results = service.list_run_hooks(lake.repository, run.id).results
    assert [(each.hook, each.skipped, each.passed) for each in results] == [
        ("h_first", False, True),
        ("h_fails", False, False),
        ("h_skipped", True, False),
        ("h_cleanup", False, True),
        ("h_not", True, False),
        ("h_also", False, False),
    ]
    assert service.get_run_hook_output(lake.repository, run.id, "0000_0003") == b"4\n"
    assert service.get_run_hook_output(lake.repository, run.id, "0000_0002") is None


def test_actions_run_side_by_side_and_every_failure_is_told(checks: Script) -> None:
    together = threading.Barrier(3)

    def answer(asked: Asked) -> tuple[int, bytes]:
        together.wait(10)  # breaks unless all three are under way at once
        return (500 if asked.body["action_name"] != "b" else 200, b"")

    lake = make_lake(settings=Settings(background=False))
    for name in ("a", "b", "c"):
        lake.upload(
            f"_lakefs_actions/{name}", action(checks.endpoint, "pre-create-tag", name=f"action {name}")
        )
    lake.commit()
    lake = with_settings(lake, actions=True)
    checks.answer = answer
    with pytest.raises(HookAbortedError) as refused:
        CALLS["create-tag"](lake)
    text = str(refused.value)
    assert "3 errors occurred:\n\t* hook run id '0000_0000'" in text
    assert "\n\t* hook run id '0002_0000' failed on action 'action c'" in text


def test_a_condition_that_is_not_understood_refuses() -> None:
    hook = "  - {id: h1, type: lua, if: maybe(), properties: {script: 'print(1)'}}\n"
    lake = repository_with(action("", "pre-create-tag", hooks=hook))
    with pytest.raises(ActionFileError, match="not understood"):
        CALLS["create-tag"](lake)
    assert runs(lake) == [("pre-create-tag", False)]


def test_what_a_hook_raises_unexpectedly_refuses_without_details(
    checks: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = repository_with(action(checks.endpoint, "pre-create-tag"))
    monkeypatch.setattr("dredge.graveler.actions.webhook.send", lambda *_: 1 / 0)
    with pytest.raises(HookAbortedError, match="action failed: internal error: ZeroDivisionError"):
        CALLS["create-tag"](lake)


def test_a_poisoned_ref_is_a_missing_commit_and_no_pass() -> None:
    lake = repository_with(action("", "pre-merge"))
    repository = lake.catalog.repositories.get_repository(lake.repository)
    with pytest.raises(CommitNotFoundError, match="pre-merge hook aborted, run id"):
        lake.catalog.actions.before(Event(EventType.PRE_MERGE, repository, "a" * 64))


def test_a_log_that_is_gone_from_the_store_is_410(checks: Script) -> None:
    lake = repository_with(action(checks.endpoint, "pre-create-tag"))
    CALLS["create-tag"](lake)
    service = lake.catalog.actions
    [run] = service.list_repository_runs(lake.repository).results
    other = make_lake()
    other.catalog.actions._results = service._results
    with pytest.raises(DataNotFoundError):
        other.catalog.actions.get_run_hook_output(lake.repository, run.id, "0000_0000")


def test_secrets_are_nowhere_in_what_a_run_leaves(checks: Script, caplog: pytest.LogCaptureFixture) -> None:
    secret = "s3cr/et+value"
    name = "{{ ENV.LAKEFSACTION_S }}"
    url = checks.endpoint
    properties = {
        "webhook": f"url: '{url}', headers: {{Authorization: 'Bearer {name}'}}, query_params: {{t: '{name}'}}",
        "lua": f"args: {{t: '{name}'}}, script: 'print(args.t); error(args.t)'",
        "airflow": f"url: '{url}', dag_id: d, username: u, password: '{name}'",
    }
    hooks = "".join(
        f"  - {{id: {kind}, type: {kind}, if: true, properties: {{{each}}}}}\n"
        for kind, each in properties.items()
    )
    lake = repository_with(action("", "pre-create-tag", hooks=hooks))
    settings = HookSettings({"LAKEFSACTION_S": secret})
    lake.catalog.actions._settings = settings
    checks.answer = lambda asked: (500, json.dumps(dict(asked.headers) | asked.query).encode())
    with pytest.raises(HookAbortedError) as refused:
        CALLS["create-tag"](lake)
    assert checks.asked[0].headers["authorization"] == f"Bearer {secret}"
    left = [lake.objects.get(key).decode() for key in lake.keys("_lakefs/actions/")]
    assert len(left) == 4
    rows = [bytes(entry.value).decode("latin-1") for entry in lake.kv.scan(b"actions")]
    for text in (*left, *rows, str(refused.value), repr(settings), caplog.text):
        for part in ("s3cr", "czNjci9ldCt2YWx1ZQ", "dTpzM2NyL2V0K3ZhbHVl"):
            assert part not in text
