"""Who may import whom, as contracts in pyproject.toml, held by import-linter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_import_contract_is_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "0 broken" in done.stdout


def test_only_the_sweeps_open_a_deleter() -> None:
    # The one of own files takes no other names; tests/unit/gc/save_report/test_lifetimes.py.
    allowed = {
        "dredge/storage/",
        "dredge/gc/bulk_delete/sweep.py",
        "dredge/gc/save_report/own_files.py",
        "dredge/icechunk/collection/sweeping.py",
    }
    openers = [
        path.relative_to(ROOT).as_posix()
        for folder in ("dredge", "operators", "spark_jobs", "dags")
        for path in (ROOT / folder).rglob("*.py")
        if "open_deleter" in path.read_text()
    ]
    assert "dredge/gc/bulk_delete/sweep.py" in openers
    strangers = [path for path in openers if not any(path.startswith(place) for place in allowed)]
    assert strangers == []


def test_only_the_end_of_a_run_is_handed_the_deleter_of_own_files() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for folder in ("dredge", "operators", "spark_jobs", "dags")
        for path in (ROOT / folder).rglob("*.py")
        if "OwnFilesDeleter" in path.read_text()
    }
    assert users == {"dredge/gc/save_report/own_files.py", "dredge/gc/save_report/lifetimes.py"}
