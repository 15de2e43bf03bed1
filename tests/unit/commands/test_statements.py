"""`dredge gc approve`, `reject` and `resume`."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from dredge.approve.records import AIRFLOW
from dredge.commands.statements import TOKEN, URL, answer_in_airflow
from dredge.errors import ConfigError, LeaseHeldError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.approve import find_question
from dredge.runs.lease import Lease, LeaseGrant
from dredge.runs.payload import from_json, to_json
from tests.support.approvals import waiting_run
from tests.support.commands import COLLECT_NOW, ORPHAN, gc
from tests.support.lakefs_server import Lake


def waiting(capsys: pytest.CaptureFixture[str]) -> str:
    code, said, errors = gc(
        capsys,
        *("run", "lake", "--apply", *COLLECT_NOW, "--max-delete-objects", "0"),
        "--json",
    )
    report = json.loads(said)
    assert (code, report["outcome"]) == (3, "awaiting_approval")
    folder = str(dict(report["facts"])["Folder"])
    assert f"dredge gc approve {folder}" in errors
    return folder


def keys(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}


def test_a_run_waits_is_approved_and_goes_on(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before = keys(lake)
    run = waiting(capsys)
    assert keys(lake) == before
    code, said, _ = gc(capsys, "approve", run, "--by", "ada")
    assert (code, "to delete 1 objects (6 bytes) of lake was approved by ada" in said) == (0, True)
    assert f"dredge gc resume {run}" in said
    assert keys(lake) == before
    code, said, _ = gc(capsys, "resume", run, "--quiet")
    assert (code, keys(lake)) == (0, before - {ORPHAN})
    assert "approved by ada (dredge gc)" in said
    assert gc(capsys, "report", run)[0] == 0


def test_a_rejected_run_does_not_go_on(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before = keys(lake)
    run = waiting(capsys)
    assert gc(capsys, "reject", run, "--by", "eve")[0] == 0
    code, _, errors = gc(capsys, "approve", run, "--by", "ada")
    assert (code, "eve rejected it" in errors) == (3, True)
    code, said, _ = gc(capsys, "resume", run, "--quiet", "--json")
    assert (code, json.loads(said)["outcome"]) == (3, "rejected")
    assert keys(lake) == before
    assert gc(capsys, "report", run)[0] == 3


def test_a_machine_that_does_not_know_who_one_is_asks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise OSError("no user")

    _, run, _, _ = waiting_run()
    monkeypatch.setattr("getpass.getuser", nobody)
    code, _, errors = gc(capsys, "approve", run.folder.uri)
    assert (code, "give --by NAME" in errors) == (2, True)


def test_a_run_with_approvers_is_approved_in_airflow(capsys: pytest.CaptureFixture[str]) -> None:
    _, run, _, _ = waiting_run(approvers="ada")
    code, _, errors = gc(capsys, "approve", run.folder.uri, "--by", "ada")
    assert (code, "ada, in Airflow" in errors) == (3, True)
    assert gc(capsys, "reject", run.folder.uri, "--by", "eve")[0] == 0


def test_what_resume_would_refuse_cannot_be_approved(capsys: pytest.CaptureFixture[str]) -> None:
    world, run, _, _ = waiting_run()
    run.lease.release(run.plan.lease)
    world.collect(max_delete_objects=None)
    code, said, _ = gc(capsys, "approve", run.folder.uri, "--by", "ada")
    assert (code, said) == (3, "")
    assert not any(
        key.endswith("/approved.json")
        for batch in run.folder.writer.list("approve/")
        for key in batch["key"].to_pylist()
    )


HOLDER = "gc lake manual__2026-01-02T03:04:05+00:00/x"


@dataclass
class Api:
    status: int = 200
    requests: list[tuple[str, str, Any]] = field(default_factory=list)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    found = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.requests.append((self.path, self.headers["Authorization"], body))
            self.send_response(found.status)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv(URL, f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv(TOKEN, "secret")
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_task_of_the_run_is_answered_as_the_tokens_user(api: Api) -> None:
    answer_in_airflow(HOLDER.replace("gc lake", "gc_lake"), "Approve")
    path = (
        "/api/v2/dags/gc_lake/dagRuns/manual__2026-01-02T03%3A04%3A05%2B00%3A00%2Fx/taskInstances/approve/-1"
    )
    assert api.requests == [(f"{path}/hitlDetails", "Bearer secret", {"chosen_options": ["Approve"]})]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, ConfigError),
        (403, RefusedError),
        (404, NotFoundError),
        (409, RefusedError),
        (500, UnavailableError),
    ],
)
def test_what_airflow_does_not_take_is_an_error_without_the_token(
    api: Api, status: int, error: type[Exception]
) -> None:
    api.status = status
    with pytest.raises(error) as caught:
        answer_in_airflow("gc_lake run", "Approve")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "error"), [("http://127.0.0.1:9", UnavailableError), ("file:///etc/passwd", ConfigError)]
)
def test_an_airflow_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, error: type[Exception]
) -> None:
    monkeypatch.setenv(URL, url)
    with pytest.raises(error):
        answer_in_airflow("gc_lake run", "Approve")


def in_airflow(run: Any) -> None:
    key = "plan.json"
    plan = run.folder.read_json(key)
    grant = from_json(LeaseGrant, plan["lease"])
    run.folder.write_json(
        key, {**plan, "lease": to_json(LeaseGrant("gc_lake manual__1", grant.fencing, grant.expires_at))}
    )


def test_the_command_leaves_a_yes_to_airflow_and_writes_a_no_down_first(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run, _, _ = waiting_run(approvers="ada")
    in_airflow(run)
    assert gc(capsys, "approve", run.folder.uri)[0] == 0
    assert find_question(run).answer is None, "the task writes it down, with its user"
    api.status = 500
    assert gc(capsys, "reject", run.folder.uri, "--by", "eve")[0] == 0
    assert [body["chosen_options"] for _, _, body in api.requests] == [["Approve"], ["Reject"]]
    found = find_question(run).rejected
    assert found is not None
    assert (found.by, found.through == AIRFLOW) == ("eve", False)


@pytest.mark.parametrize(("status", "is_free"), [(404, True), (500, False)])
def test_a_no_to_a_run_that_airflow_no_longer_has_gives_its_lease_back(
    api: Api, capsys: pytest.CaptureFixture[str], status: int, is_free: bool
) -> None:
    _, run, _, _ = waiting_run()
    api.status = status
    in_airflow(run)
    lease = run.plan.lease
    Lease(run.state, timedelta(hours=1), run.store_now).release(lease)
    held = Lease(run.state, timedelta(hours=1), run.store_now).acquire("gc_lake manual__1")
    plan = run.folder.read_json("plan.json")
    run.folder.write_json("plan.json", {**plan, "lease": to_json(held)})
    assert gc(capsys, "reject", run.folder.uri, "--by", "eve")[0] == 0
    if is_free:
        Lease(run.state, timedelta(hours=1), run.store_now).check_free("another")
    else:
        with pytest.raises(LeaseHeldError):
            Lease(run.state, timedelta(hours=1), run.store_now).check_free("another")


def test_without_an_address_the_answer_stands_in_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(URL, raising=False)
    _, run, _, _ = waiting_run()
    in_airflow(run)
    assert gc(capsys, "approve", run.folder.uri, "--by", "ada")[0] == 0
    found = find_question(run).approved
    assert found is not None
    assert found.by == "ada"
