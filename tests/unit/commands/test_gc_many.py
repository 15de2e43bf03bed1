"""`dredge gc all` collects every repository of a server in this process, and deletes only when it is told to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import COLLECT_NOW, gc, server
from tests.support.lakefs_server import Lake


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Lake]:
    with server(tmp_path) as found:
        for name in ("lake", "pond"):
            found.repository(name).branch("main").object("kept").upload(b"kept")
            found.writer(name).put("data/orphan", b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        yield found


def keys(lakes: Lake, name: str) -> list[str]:
    return [key for batch in lakes.writer(name).list("data/") for key in batch["key"].to_pylist()]


def test_all_are_shown_and_then_swept_and_each_on_its_own_page(
    lakes: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = gc(capsys, "all", *COLLECT_NOW)
    assert code == 0
    assert "2 of 2 repositories were checked" in said
    assert "data/orphan" in keys(lakes, "lake")
    code, said, _ = gc(capsys, "all", *COLLECT_NOW, "--apply", "--json", "--at-once", "2")
    summary = json.loads(said)
    assert code == 0
    assert summary["counts"]["deleted_objects"] == 2
    assert len(keys(lakes, "lake")) == len(keys(lakes, "pond")) == 1
    page = Path(summary["report_uri"].partition("://")[2])
    assert "pond" in page.read_text()
