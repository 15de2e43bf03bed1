"""The demo holds on every store that it can start."""

from pathlib import Path

import pytest

import demo.__main__ as demo
from demo.stores import STORES

pytestmark = [pytest.mark.system, pytest.mark.long]


@pytest.mark.parametrize("store", [name for name in STORES if name != "local"])
def test_every_kind_of_garbage_goes_and_every_live_object_is_read_back(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "STATE", tmp_path / "demo")
    assert demo.lakefs_demo(scale=0.1, dry_run=False, store=store)
    said = capsys.readouterr().out
    assert "PASSED" in said
    assert "WRONG" not in said
    assert (tmp_path / "demo" / "report.html").exists()
    log = (tmp_path / "demo" / "dag.log").read_text()
    assert "PRIVATE KEY" not in log
