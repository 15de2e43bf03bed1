"""Hooks and their runs through the generated SDK; Lua scripts that call the API."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Literal

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.exceptions import ApiException, NotFoundException

from dredge.graveler.catalog import Settings
from tests.support.http import scripted_server
from tests.support.lakefs_server import Lake, lakefs_server

SCRIPT = """
local lakefs = require("lakefs")
local code, found = lakefs.list_objects(action.repository_id, action.source_ref, "", "", "", 10)
print(username, action.branch_id, code, found.results[1].path)
local code, made = lakefs.create_tag(action.repository_id, action.commit.parents[1], args.tag)
print(code, made.message or made.id)
"""


def upload(lake: Lake, path: str, content: str, branch: str = "main") -> None:
    url = f"/repositories/lake/branches/{branch}/objects"
    assert lake.http("POST", url, query={"path": path}, body=content.encode()).status == 201


def commit(client: LakeFSClient, message: str = "m") -> sdk.Commit:
    return client.commits_api.commit("lake", "main", sdk.CommitCreation(message=message))


def lua(event: str, script: str, name: str = "checks", more: str = "") -> str:
    text = "\n".join(f"        {line}" for line in script.strip().splitlines())
    return (
        f"name: {name}\non: {{{event}: }}\nhooks:\n  - id: check\n    type: lua\n"
        f"    properties:\n      {more}\n      script: |\n{text}\n"
    )


def settled(lake: Lake, count: int, **query: str) -> list[sdk.ActionRun]:
    """The runs, once there are so many: those after a change come in the background."""
    deadline = time.monotonic() + 10
    while True:
        found = lake.sdk.actions_api.list_repository_runs("lake", **query).results
        if len(found) >= count or time.monotonic() > deadline:
            return list(found)
        time.sleep(0.01)


def output(lake: Lake, run: str, hook_run: str = "0000_0000") -> str:
    return bytes(lake.sdk.actions_api.get_run_hook_output("lake", run, hook_run)).decode()


def test_runs_are_listed_and_shown_and_a_refusal_is_412(lake: Lake) -> None:
    lake.repository("lake")
    upload(
        lake, "_lakefs_actions/a.yaml", lua("pre-commit: , post-commit", 'print(action.event_type, "ran")')
    )
    made = commit(lake.sdk)
    runs = settled(lake, 2, commit=made.id)
    assert {(each.event_type, each.status, each.branch, each.commit_id) for each in runs} == {
        ("pre-commit", "completed", "main", made.id),
        ("post-commit", "completed", "main", made.id),
    }
    before = next(each for each in runs if each.event_type == "pre-commit")
    assert lake.sdk.actions_api.get_run("lake", before.run_id) == before
    [hook] = lake.sdk.actions_api.list_run_hooks("lake", before.run_id).results
    assert (hook.hook_run_id, hook.action, hook.hook_id, hook.status) == (
        "0000_0000",
        "checks",
        "check",
        "completed",
    )
    assert output(lake, before.run_id) == "pre-commit\tran\n"
    lake.clock.advance(seconds=2)  # within a second the order of runs is that of their beginnings
    upload(lake, "_lakefs_actions/b.yaml", lua("pre-commit", 'require("hook").fail("not today")', "refusing"))
    with pytest.raises(ApiException) as refused:
        commit(lake.sdk)
    assert refused.value.status == 412
    newest = lake.sdk.actions_api.list_repository_runs("lake", branch="main", amount=1)
    [failed] = newest.results
    assert (failed.status, newest.pagination.has_more) == ("failed", True)
    assert failed.run_id in refused.value.body
    assert "failed on action 'refusing' hook 'check': action failed: not today" in refused.value.body
    rest = lake.sdk.actions_api.list_repository_runs("lake", after=failed.run_id).results
    assert {each.run_id for each in rest} == {each.run_id for each in runs}
    answer = lake.http("GET", f"/repositories/lake/actions/runs/{failed.run_id}/hooks/0001_0000/output")
    assert answer.headers["content-disposition"] == "attachment; filename=0001_0000.log"
    assert answer.headers["content-type"] == "application/octet-stream"


def test_a_script_acts_with_the_rights_of_the_user(lake: Lake) -> None:
    lake.repository("lake")
    upload(lake, "a/script.lua", SCRIPT)
    action = lua("pre-commit", "", more="script_path: a/script.lua\n      args: {tag: made}")
    upload(lake, "_lakefs_actions/a.yaml", action.replace("      script: |\n", ""))
    auth = lake.sdk.auth_api
    auth.create_user(user_creation=sdk.UserCreation(id="reader"))
    auth.create_policy(
        sdk.Policy(
            id="commits",
            statement=[
                sdk.Statement(
                    effect="allow",
                    resource="*",
                    action=["fs:Read*", "fs:List*", "fs:CreateCommit", "fs:WriteObject"],
                )
            ],
        )
    )
    auth.attach_policy_to_user("reader", "commits")
    made = auth.create_credentials("reader")
    configuration = lake.configuration()
    configuration.username, configuration.password = made.access_key_id, made.secret_access_key
    commit(LakeFSClient(configuration))
    [run] = settled(lake, 1)
    listed, refused = output(lake, run.run_id).splitlines()
    assert listed == "reader\tmain\t200\t_lakefs_actions/a.yaml"
    assert refused.startswith("401\tinsufficient permissions")
    assert not lake.sdk.tags_api.list_tags("lake").results
    upload(lake, "b", "b")
    lake.clock.advance(seconds=2)
    commit(lake.sdk)
    assert output(lake, settled(lake, 2)[0].run_id).endswith("\n201\tmade\n")
    assert [each.id for each in lake.sdk.tags_api.list_tags("lake").results] == ["made"]


def test_calls_of_scripts_leave_no_threads_behind(lake: Lake) -> None:
    lake.repository("lake")
    script = 'for i = 1, 20 do require("lakefs").stat_object("lake", "main", "a") end'
    upload(lake, "_lakefs_actions/a.yaml", lua("pre-commit", script))
    before = threading.active_count()
    commit(lake.sdk)
    deadline = time.monotonic() + 5
    while threading.active_count() > before + 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before + 3  # workers of the server itself


def test_the_example_of_the_page_refuses_what_it_says(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEFSACTION_TOKEN", "s3cret")
    monkeypatch.setenv("LAKEFSACTION_AIRFLOW", "s3cret too")
    page = (Path(__file__).parents[4] / "docs" / "embedded.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    lake.repository("lake")
    with scripted_server() as outside:
        outside.answer = lambda _: (200, {})
        for host in ("https://checks.example.com", "https://airflow.example.com"):
            assert host in example
            example = example.replace(host, outside.endpoint)
        lake.sdk.branches_api.create_branch("lake", sdk.BranchCreation(name="side", source="main"))
        upload(lake, "_lakefs_actions/checks.yaml", example, "side")
        upload(lake, "a/b.tmp", "", "side")
        lake.sdk.commits_api.commit("lake", "side", sdk.CommitCreation(message="m"))
        with pytest.raises(
            ApiException, match=r"hook 'no_temporary_files': action failed: a/b\.tmp"
        ) as refused:
            lake.sdk.refs_api.merge_into_branch("lake", "side", "main")
        assert refused.value.status == 412
        assert [each.path for each in outside.asked] == ["/schema", "/api/v1/dags/refused/dagRuns"]
        assert outside.asked[0].headers["authorization"] == "Bearer s3cret"


def test_a_script_that_is_not_there_refuses(lake: Lake) -> None:
    lake.repository("lake")
    action = lua("pre-commit", "", more="script_path: none.lua").replace("      script: |\n", "")
    upload(lake, "_lakefs_actions/a.yaml", action)
    with pytest.raises(ApiException, match=r"could not load script_path none\.lua: HTTP 404: invalid action"):
        commit(lake.sdk)


def test_an_action_file_with_a_mistake_is_500_and_one_line_in_the_log(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.repository("lake")
    upload(lake, "_lakefs_actions/a.yaml", "on: [")
    with pytest.raises(ApiException, match=r"parsing file _lakefs_actions/a\.yaml") as refused:
        commit(lake.sdk)
    assert refused.value.status == 500
    [record] = [each for each in caplog.records if each.name == "dredge.server.errors"]
    assert record.exc_info is None


@pytest.mark.parametrize(("profile", "status"), [("lakefs", "skipped"), ("design", "failed")])
def test_a_skipped_hook(tmp_path: Path, profile: Literal["lakefs", "design"], status: str) -> None:
    with lakefs_server(tmp_path, catalog=Settings(profile=profile)) as lake:
        check_skipped(lake, status)


def check_skipped(lake: Lake, status: str) -> None:
    lake.repository("lake")
    action = lua("pre-commit", "print(1)").replace("    type: lua", "    type: lua\n    if: failure()")
    upload(lake, "_lakefs_actions/a.yaml", action)
    commit(lake.sdk)
    [run] = settled(lake, 1)
    answer = lake.http("GET", f"/repositories/lake/actions/runs/{run.run_id}/hooks").json()
    assert answer["results"] == [
        {
            "action": "checks",
            "hook_id": "check",
            "hook_run_id": "0000_0000",
            "start_time": "0001-01-01T00:00:00Z",
            "status": status,
        }
    ]
    empty = lake.http("GET", f"/repositories/lake/actions/runs/{run.run_id}/hooks/0000_0000/output")
    assert (empty.status, empty.data) == (200, b"")


def test_what_is_not_there_is_404(lake: Lake) -> None:
    lake.repository("lake")
    actions = lake.sdk.actions_api
    for call, arguments in (
        (actions.get_run, ("lake", "none")),
        (actions.get_run_hook_output, ("lake", "none", "0000_0000")),
        (actions.list_repository_runs, ("nowhere",)),
        (actions.list_run_hooks, ("nowhere", "none")),
        (actions.get_run, ("nowhere", "none")),
        (actions.get_run_hook_output, ("nowhere", "none", "0000_0000")),
    ):
        with pytest.raises(NotFoundException):
            call(*arguments)
    assert not actions.list_run_hooks("lake", "none").results
    with pytest.raises(ApiException) as refused:
        actions.list_repository_runs("lake", branch="main", commit="c")
    assert refused.value.status == 400


def test_an_import_runs_the_hooks_of_its_commit_in_the_name_of_its_user(tmp_path: Path) -> None:
    with lakefs_server(tmp_path, local_import=True) as lake:
        lake.repository("lake")
        upload(lake, "_lakefs_actions/a.yaml", lua("pre-commit", "print(username)"))
        commit(lake.sdk)
        lake.clock.advance(seconds=2)
        source = tmp_path / "objects" / "elsewhere"
        source.mkdir()
        (source / "one").write_bytes(b"1")
        paths = [sdk.ImportLocation(type="common_prefix", path=f"local://{source}/", destination="in/")]
        wanted = sdk.ImportCreation(paths=paths, commit=sdk.CommitCreation(message="i"))
        lake.sdk.import_api.import_start("lake", "main", wanted)
        assert output(lake, settled(lake, 2)[0].run_id) == "admin\n"
