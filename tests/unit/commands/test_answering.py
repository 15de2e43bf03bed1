"""`dredge gc approve`, `reject` and `resume`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
from tests.support.approvals import gc, waiting_run
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

ORPHAN = "data/orphan"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with lakefs_server(tmp_path) as found:
        monkeypatch.setenv(ENDPOINT, found.server.endpoint)
        monkeypatch.setenv(ACCESS_KEY, KEY_PAIR.access_key_id)
        monkeypatch.setenv(SECRET_KEY, KEY_PAIR.secret_access_key)
        branch = found.repository().branch("main")
        branch.object("kept").upload(b"kept")
        branch.commit("kept")
        found.writer().put(ORPHAN, b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        yield found


def waiting(capsys: pytest.CaptureFixture[str]) -> str:
    """Start a run beyond its limits; gives its folder."""
    code, said, errors = gc(
        capsys,
        *(
            "run",
            "lake",
            "--apply",
            "--quiet",
            "--unsafe-min-age-seconds",
            "1",
            "--unsafe-grace-seconds",
            "0",
            "--max-delete-percent",
            "100",
            "--max-delete-objects",
            "0",
        ),
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
    assert f"Go on with: dredge gc resume {run}" in said
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


def test_a_second_run_is_refused_until_the_first_one_is_answered(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(lake)
    run = waiting(capsys)
    unlimited = (
        "run",
        "lake",
        "--apply",
        "--quiet",
        "--unsafe-min-age-seconds",
        "1",
        "--unsafe-grace-seconds",
        "0",
        "--max-delete-percent",
        "100",
    )
    assert gc(capsys, *unlimited)[0] == 3
    assert gc(capsys, "approve", run, "--by", "ada")[0] == 0
    assert gc(capsys, *unlimited)[0] == 3
    assert keys(lake) == before
    assert gc(capsys, "resume", run, "--quiet")[0] == 0
    assert keys(lake) == before - {ORPHAN}
    assert gc(capsys, *unlimited)[0] == 0


def test_what_resume_would_refuse_cannot_be_approved(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody is told to go on with a run that cannot."""
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
