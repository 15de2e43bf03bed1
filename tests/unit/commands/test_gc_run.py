"""`dredge gc run` collects a repository in this process, and deletes only when it is told to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dredge.lakefs.client import ENDPOINT
from tests.support.commands import COLLECT_NOW, gc, server
from tests.support.lakefs_server import Lake

ORPHAN = "data/orphan"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with server(tmp_path) as found:
        branch = found.repository().branch("main")
        branch.object("kept").upload(b"kept")
        branch.commit("kept")
        found.writer().put(ORPHAN, b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        yield found


def collect(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return gc(capsys, "run", "lake", *COLLECT_NOW, *words)


def keys(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}


def test_a_run_only_says_what_would_go(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before = keys(lake)
    code, said, _ = collect(capsys)
    assert code == 0
    assert keys(lake) == before
    assert "dry run" in said.lower()
    assert f"run {lake.namespace('lake')}/_lakefs/retention/gc/unified/" in said


def test_a_run_that_is_told_to_deletes_the_garbage_and_nothing_else(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(lake)
    code, said, _ = collect(capsys, "--apply", "--json")
    report = json.loads(said)
    assert (code, report["outcome"], report["counts"]["deleted_objects"]) == (0, "success", 1)
    assert keys(lake) == before - {ORPHAN}


def test_a_run_that_is_held_shows_its_report_and_deletes_nothing(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(lake)
    code, said, errors = collect(capsys, "--apply", "--max-delete-objects", "0")
    assert code == 3
    assert keys(lake) == before
    assert "held" in said
    assert errors.startswith("dredge: ")
    assert collect(capsys, "--apply")[0] == 3, "it waits for an answer, and holds other runs back"
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
    code, _, errors = collect(capsys, *words)
    assert code == 2
    assert message in errors
