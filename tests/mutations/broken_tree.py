"""A copy of the tree in which a guard is broken, and the tests that are run there.

tree = BrokenTree(folder)
with tree.broken(breakage):
    failed = tree.run(breakage.tests)
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutations.breakages import Breakage

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "*.pyc", "spark-warehouse", "metastore_db", "artifacts"
)
PRODUCT = ("dredge", "lakefs_embedded", "operators", "spark_jobs", "dags")


def find_tests(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """Give pytest's names of test functions, wherever they live.

    Args:
        names: of functions.
        root: of the tree.

    Raises:
        AssertionError: there is none of that name.
    """
    places, found = _places(root), list[str]()
    for name in names:
        assert name in places, (
            f"no test is called {name} any more: name the one that took its place in tests/mutations/breakages"
        )
        found += [f"{path}::{name}" for path in places[name]]
    return found


@functools.cache
def _places(root: Path) -> dict[str, list[Path]]:
    """The files that have a test, by its name."""
    places: dict[str, list[Path]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE):
            places[name].append(path.relative_to(root))
    return places


def require_text(breakage: Breakage, root: Path = ROOT) -> Path:
    """Give the file of a breakage; its old text must occur there, once.

    Raises:
        AssertionError: it does not; the message says where the text is now.
    """
    path = root / breakage.file
    count = path.read_text().count(breakage.old) if path.exists() else 0
    if count == 1:
        return path
    elsewhere = [
        str(other.relative_to(root))
        for folder in PRODUCT
        for other in sorted((root / folder).rglob("*.py"))
        if other != path and breakage.old in other.read_text()
    ]
    what = (
        f"the old text {breakage.old!r} occurs {count} times in {breakage.file}"
        if path.exists()
        else (f"there is no file {breakage.file}")
    )
    where = f"; it occurs in {', '.join(elsewhere)}" if elsewhere else "; it occurs nowhere else"
    raise AssertionError(
        f"{breakage.name}: {what}{where}. Bring the guard's new text into tests/mutations/breakages"
    )


class BrokenTree:
    """A copy of the tree.

    Args:
        folder: where it goes.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=LEFT_OUT)  # links: one file under one name

    @contextmanager
    def broken(self, breakage: Breakage) -> Iterator[None]:
        """Have a guard broken until the end of the block."""
        path = require_text(breakage, self.root)
        whole = path.read_text()
        try:
            self._write(path, whole.replace(breakage.old, breakage.new))
            yield
        finally:
            self._write(path, whole)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()  # its time alone may not tell that it is old

    def run(self, tests: Sequence[str]) -> tuple[list[str], str]:
        """Run tests, to the first failure.

        Args:
            tests: as pytest names them.

        Returns:
            Those that failed, and what pytest said.
        """
        failures = self.root / "failures"
        failures.write_text("")
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutations.failures"]
        # its own: two runs that share the default folder clear each other's files
        options.append(f"--basetemp={self.root.parent / 'files'}")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.root,
            env={
                **_environment(),
                "PYTHONPATH": str(self.root),
                "DREDGE_FAILURES": str(failures),
                "DREDGE_SHRINK": "off",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1), f"the tests could not be run:\n{done.stdout[-4000:]}"
        return failures.read_text().splitlines(), done.stdout


def _environment() -> dict[str, str]:
    """The environment without what pytest and its workers left there; hunts as deep as in `./run test`."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "DREDGE_TESTS", "AIRFLOW"))
    }
