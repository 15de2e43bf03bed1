"""The trash demo holds, and notices when something live is lost or trash stays."""

from pathlib import Path
from typing import Any

import pytest

from demo import trash as demo
from dredge.kv.rows import Row
from dredge.trash.findings import KINDS

pytestmark = pytest.mark.system


def test_every_kind_of_trash_goes_and_every_living_repository_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.trash_demo(tmp_path / "demo")
    dry_run, cleaned = capsys.readouterr().out.split("\n4. ")
    removed = {line.split()[0] for line in cleaned.splitlines() if "  removed  " in line}
    assert removed >= set(KINDS)
    assert "  removed  " not in dry_run
    assert "equal to the last byte" in cleaned
    assert list((tmp_path / "demo/state/runs").glob("*/report.html"))
    assert list((tmp_path / "demo/state/runs").glob("*/undo/*.jsonl"))


def test_demo_fails_when_a_row_that_nobody_called_trash_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    careful = demo.clean

    def careless(store: Any, *args: Any, **options: Any) -> Any:
        report = careful(store, *args, **options)
        if not options["dry_run"]:
            with store.view() as view:
                staged = [p for p in view.partitions() if p.startswith(b"archive-main:")]
                entry = next(iter(view.scan(staged[0])))
            assert store.delete_rows([Row(staged[0], entry.key, entry.value)]) == [True]
        return report

    monkeypatch.setattr(demo, "clean", careless)
    assert not demo.trash_demo(tmp_path / "demo")
    said = capsys.readouterr().out
    wrong = [line for line in said.splitlines() if "WRONG" in line]
    assert ["staged-main/0" in line for line in wrong] == [True, True]  # in the rows, and for the server
