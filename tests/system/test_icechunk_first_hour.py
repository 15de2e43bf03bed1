"""The page for the first hour works as it is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "icechunk-first-hour.md"


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    bin_folder = str(Path(sys.executable).parent)
    environment = os.environ | {
        "FOLDER": str(tmp_path / "repo"),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    }
    for kind, block in blocks:
        command = (
            [sys.executable, "-c", block] if kind == "python" else ["bash", "-euo", "pipefail", "-c", block]
        )
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
