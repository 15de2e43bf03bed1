"""An environment with Dredge's wheel installed, without access to this tree."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Variables that would lead somewhere else, or bring credentials of this machine.
_LEFT_OUT = ("AIRFLOW", "AWS_", "DREDGE_", "LAKECTL_", "PYTEST_", "PYTHON", "SPARK_")


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def install(wheel: Path, home: Path) -> Path:
    """Make an environment with the wheel, and with the dependencies of this one; returns its Python."""
    venv.create(home, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(home), "platbase": str(home)}))
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    # Folders that such a file names are searched, but the links to checkouts in them are not followed.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return home / "bin" / "python"


def environment() -> dict[str, str]:
    """This process's variables without paths to this tree; the commands of the dependencies are on the path."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    return inherited | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
