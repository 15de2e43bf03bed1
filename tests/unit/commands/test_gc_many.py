"""`dredge gc all` collects every repository of a server in this process, and deletes only when it is told to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dredge.cli import main
from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with lakefs_server(tmp_path) as found:
        monkeypatch.setenv(ENDPOINT, found.server.endpoint)
        monkeypatch.setenv(ACCESS_KEY, KEY_PAIR.access_key_id)
        monkeypatch.setenv(SECRET_KEY, KEY_PAIR.secret_access_key)
        for name in ("lake", "pond"):
            found.repository(name).branch("main").object("kept").upload(b"kept")
            found.writer(name).put("data/orphan", b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        yield found


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "gc",
                "all",
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
    return int(ended.value.code or 0), capsys.readouterr().out


def keys(server: Lake, name: str) -> list[str]:
    return [key for batch in server.writer(name).list("data/") for key in batch["key"].to_pylist()]


def test_all_are_shown_and_then_swept_and_each_on_its_own_page(
    server: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = ask(capsys)
    assert code == 0
    assert "2 of 2 repositories were looked at" in said
    assert "data/orphan" in keys(server, "lake")
    code, said = ask(capsys, "--apply", "--json", "--at-once", "2")
    summary = json.loads(said)
    assert code == 0
    assert summary["counts"]["deleted_objects"] == 2
    assert len(keys(server, "lake")) == len(keys(server, "pond")) == 1
    page = Path(summary["report_uri"].partition("://")[2])
    assert "pond" in page.read_text()
