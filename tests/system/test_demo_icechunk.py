"""The Icechunk demo holds, and notices when something is lost."""

from pathlib import Path

import pytest

from demo import icechunk as demo

pytestmark = pytest.mark.system


def test_sample_frees_two_snapshots_then_five_and_every_ref_reads_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.icechunk_demo(tmp_path / "repo")
    said = capsys.readouterr().out
    assert "WRONG" not in said


def test_demo_fails_when_a_ref_reads_otherwise_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    collect, reports = demo.collect, []

    def collect_and_move_main(config: demo.CollectConfig) -> object:
        reports.append(collect(config))
        report = reports[-1]
        if len(reports) == 1:
            return report  # the next collection would refuse main's lost tip
        library = demo.open_library(config.uri)
        library.reset_branch("main", library.lookup_branch("develop"))
        return report

    monkeypatch.setattr(demo, "collect", collect_and_move_main)
    assert not demo.icechunk_demo(tmp_path / "repo")
    assert "WRONG" in capsys.readouterr().out
