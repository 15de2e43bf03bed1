"""`dredge gc run` collects a repository in this process, and deletes only when it is told to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dredge.cli import main
from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
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


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Give exit code, output and errors of `dredge gc run lake` with these words."""
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "gc",
                "run",
                "lake",
                "--unsafe-min-age-seconds",
                "1",
                "--unsafe-grace-seconds",
                "0",
                "--max-delete-percent",
                "100",
                "--quiet",
                *words,
            ]
        )
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def keys(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}


def test_a_run_only_says_what_would_go(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before = keys(lake)
    code, said, _ = run(capsys)
    assert code == 0
    assert keys(lake) == before
    assert "dry run" in said.lower()
    assert f"run {lake.namespace('lake')}/_lakefs/retention/gc/unified/" in said


def test_a_run_that_is_told_to_deletes_the_garbage_and_nothing_else(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(lake)
    code, said, _ = run(capsys, "--apply", "--json")
    report = json.loads(said)
    assert (code, report["outcome"], report["counts"]["deleted_objects"]) == (0, "success", 1)
    assert keys(lake) == before - {ORPHAN}


def test_a_run_that_is_held_shows_its_report_and_deletes_nothing(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(lake)
    code, said, errors = run(capsys, "--apply", "--max-delete-objects", "0")
    assert code == 3
    assert keys(lake) == before
    assert "held" in said
    assert errors.startswith("dredge: ")
    assert run(capsys, "--apply")[0] == 3, "it waits for an answer, and holds other runs back"
    assert keys(lake) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-delete-percent", "101"), "--max-delete-percent"),
        (("--mode", "fast"), "--mode"),
        (("--retention-policy", "policy.yaml"), "policy.yaml"),
        (("--processes", "-1"), "'--processes': -1 is not in the range x>=0"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_touched(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    code, _, errors = run(capsys, *words)
    assert code == 2
    assert message in errors
