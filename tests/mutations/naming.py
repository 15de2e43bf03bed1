"""Where the tests live that a breakage names."""

import functools
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def find_tests(names: Sequence[str]) -> list[str]:
    """Give pytest's names of test functions, wherever they live."""
    found = list[str]()
    for name in names:
        assert name in _places(), (
            f"no test is called {name} any more: name the one that took its place in tests/mutations/breakages"
        )
        found += [f"{path}::{name}" for path in _places()[name]]
    return found


@functools.cache
def _places() -> dict[str, list[Path]]:
    places: dict[str, list[Path]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE):
            places[name].append(path.relative_to(ROOT))
    return places
