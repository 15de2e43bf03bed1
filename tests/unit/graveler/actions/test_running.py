"""The hooks of one run: their order, their failures, and what they leave."""

from __future__ import annotations

import json
import threading

import pytest

from dredge.graveler.actions import ActionFileError, HookAbortedError, HookSettings
from dredge.graveler.actions.hooks import LOG_CHARACTERS_MAX
from dredge.graveler.catalog import Settings
from tests.support.actions import CALLS, action, repository_with, runs
from tests.support.http import Asked, Script
from tests.support.lakes import make_lake, with_settings


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


def test_a_hook_that_cannot_be_made_refuses_and_no_other_runs(checks: Script) -> None:
    missing = (
        "  - {id: h2, type: webhook, properties: {url: u, headers: {A: '{{ ENV.LAKEFSACTION_NONE }}'}}}\n"
    )
    good = f"  - {{id: h1, type: webhook, properties: {{url: '{checks.endpoint}'}}}}\n"
    lake = repository_with(action("", "pre-create-tag", hooks=good + missing))
    with pytest.raises(ActionFileError, match="LAKEFSACTION_NONE not found: missing env var"):
        CALLS["create-tag"](lake)
    assert not checks.asked


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
