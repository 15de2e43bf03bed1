"""`dredge ui` answers to its own names: a page of another site cannot make its name lead here and read it."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dredge.commands.ui import command
from dredge.icechunk.maintenance import RUNS
from dredge.storage import open_writer
from tests.support.pages import Browser


def served(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> tuple[Browser, str]:
    """Return a browser on what the command serves, and the host that it listens on."""
    open_writer(f"file://{folder}/{RUNS}/{'0' * 20}").put("plan.json", b"{}")
    served: dict[str, Any] = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **how: served.update(how, app=app))
    done = CliRunner().invoke(command, [str(folder), *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return Browser(served["app"]), served["host"]


@pytest.mark.parametrize(
    ("listen", "given", "status"),
    [
        ("127.0.0.1:8090", "127.0.0.1:8090", 200),
        ("127.0.0.1:8090", "localhost", 200),
        ("127.0.0.1:8090", "LOCALHOST.:9999", 200),
        ("127.0.0.1:8090", "[::1]:8090", 200),
        ("[::1]:8090", "[::1]:8090", 200),
        ("ops.example.com:8090", "ops.example.com:8090", 200),
        ("0.0.0.0:8090", "192.0.2.7:8090", 200),
        ("0.0.0.0:8090", "[2001:db8::7]:8090", 200),
        ("127.0.0.1:8090", "rebind.example.net:8090", 421),
        ("127.0.0.1:8090", "127.0.0.1.example.net", 421),
        ("127.0.0.1:8090", "localhost.example.net:8090", 421),
        ("127.0.0.1:8090", "192.0.2.7:8090", 421),
        ("127.0.0.1:8090", "", 421),
        ("0.0.0.0:8090", "rebind.example.net:8090", 421),
    ],
)
def test_only_its_own_names_are_answered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listen: str, given: str, status: int
) -> None:
    browser, _ = served(monkeypatch, tmp_path, "--listen", listen)
    for path in ("/", "/static/pages.css", "/why"):
        found = browser.get(path, headers={"Host": given})
        assert (found.status_code == 421) == (status == 421), path
