"""Which lines each test runs, measured once for each file of tests and kept until that file changes.

Python's own monitoring tells of each line once for each test, which costs next to nothing. coverage.py's contexts
would take the slower way here: with Python 3.12 its fast core does not have them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TOOL = 4
"""A free one of `sys.monitoring`'s."""


class Touched(NamedTuple):
    """A test and what it ran.

    Attributes:
        seconds: of processor.
        lines: of each file, by function: offsets from its first line.
    """

    seconds: float
    lines: dict[str, dict[str, list[int]]]


class Watcher:
    """Sees the lines that are run.

    Args:
        root: of the tree.
        codes: the code to watch, with the outermost that it is inside of.
    """

    def __init__(self, root: Path, codes: Iterable[tuple[types.CodeType, types.CodeType]]) -> None:
        self._root = f"{root}/"
        self._seen: set[tuple[types.CodeType, int]] = set()
        self._outer: dict[types.CodeType, types.CodeType] = {}
        sys.monitoring.use_tool_id(TOOL, "mutants")
        sys.monitoring.register_callback(TOOL, sys.monitoring.events.LINE, self._line)
        for code, outer in codes:
            self._outer[code] = outer
            sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.LINE)

    def _line(self, code: types.CodeType, line: int) -> Any:
        self._seen.add((code, line))
        return sys.monitoring.DISABLE

    def start(self) -> float:
        """Begin a test; gives the processor's time."""
        self._seen.clear()
        sys.monitoring.restart_events()
        return time.process_time()

    def stop(self, began: float) -> Touched:
        """End it."""
        lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for code, line in self._seen.copy():  # a thread that outlives its test goes on
            outer = self._outer[code]
            file = os.path.realpath(code.co_filename).removeprefix(self._root)
            lines[file][outer.co_qualname.partition(".<locals>")[0]].append(line - outer.co_firstlineno)
        plain = {file: {name: sorted(at) for name, at in names.items()} for file, names in lines.items()}
        return Touched(time.process_time() - began, plain)


class TestMap:
    """What was measured.

    Args:
        path: where it is kept.
        root: of the tree.
    """

    __test__ = False

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._tests: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        self._index: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(dict)
        for file, known in self._tests.items():
            self._add(file, known)

    def _add(self, file: str, known: dict[str, Any]) -> None:
        for test, (_, lines) in known["tests"].items():
            for product, names in lines.items():
                for name, at in names.items():
                    self._index[product, name][test] = at

    def missing(self, files: Mapping[str, Iterable[str]]) -> list[str]:
        """The files of tests that were not measured as they are now; each is given with its tests."""
        return [file for file, tests in files.items() if not self._is_known(file, tests)]

    def _is_known(self, file: str, tests: Iterable[str]) -> bool:
        known = self._tests.get(file)
        return (
            known is not None
            and known["digest"] == self._digest(file)
            and known["tests"].keys() >= set(tests)
        )

    def _digest(self, file: str) -> str:
        return hashlib.sha256((self._root / file).read_bytes()).hexdigest()[:16]

    def imports(self, files: Iterable[str]) -> dict[str, None]:
        """Names of what the tests of some files import while they run, in that order."""
        return {name: None for file in files for name in self._tests[file].get("imports", ())}

    def put(self, file: str, tests: dict[str, Touched], imports: Sequence[str]) -> None:
        """Keep what the tests of a file ran and imported."""
        self._tests[file] = {"digest": self._digest(file), "tests": tests, "imports": imports}
        self._add(file, self._tests[file])
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self._tests))
        new.replace(self._path)

    def seconds(self, test: str) -> float:
        """What a test takes."""
        return float(self._tests[test.partition("::")[0]]["tests"][test][0])

    def of_function(self, file: str, function: str) -> Iterator[tuple[str, list[int]]]:
        """The tests that run a function, with the lines of the file that each runs there."""
        yield from self._index.get((file, function), {}).items()

    def of_file(self, file: str) -> set[str]:
        """The tests that run anything of a file."""
        return {test for (path, _), tests in self._index.items() if path == file for test in tests}
