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
    """Give exit code and output of `dredge gc all` with these words."""
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


def test_one_that_fails_is_told_of_and_stops_no_other(
    server: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    server.writer("lake").put("_lakefs/retention/gc/dredge/lease.json", b"not a lease")
    code, said = ask(capsys, "--apply")
    assert code == 9
    assert "is not a lease" in said
    assert "data/orphan" in keys(server, "lake")
    assert "data/orphan" not in keys(server, "pond")


def test_a_setting_that_does_not_fit_is_found_before_anything_is_done(
    server: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = ask(capsys, "--apply", "--max-delete-objects", "-1")
    assert code == 2
    assert "data/orphan" in keys(server, "lake")
