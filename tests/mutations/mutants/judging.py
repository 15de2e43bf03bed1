"""Breaks, runs the tests that touch the line, and says who noticed.

One process imports the product and all tests once, as a plugin of pytest that has its own way of running what pytest
collected. Each mutant lives and dies in a fork of it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from tests.mutations.mutants.applying import Functions, forget
from tests.mutations.mutants.children import in_child
from tests.mutations.mutants.finding import find_edits
from tests.mutations.mutants.mutant import Mutant, mutated
from tests.mutations.mutants.results import Result
from tests.mutations.mutants.touching import TestMap, Touched, Watcher

QUIET = (
    *("-qq", "--no-header", "--no-summary", "-s", "-o", "timeout=0"),
    *("-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
NEVER = 1e9
"""What a test takes that fails on the whole product: it is not asked."""
QUICK_SECONDS = 0.3
IMPORT_SECONDS = 20
"""What it may take to import the product and the tests again."""

type Seeds = Callable[[str], Iterator[tuple[str, Callable[[], bool]]]]
"""Gives, for a file, names of further checks that take longer, each of which tells whether something is wrong."""


@dataclass(eq=False)
class Judge:
    """The plugin.

    Attributes:
        root: of the tree.
        folders: of the product, whose lines are mapped.
        tests: which tests run which lines.
        work: what is done once everything is imported.
        seeds: what is asked when no test noticed.
        seconds_max: of tests that are run for a mutant, by what they took once.
        say: tells of progress.
        found: what each test found in each file until now.
    """

    root: Path
    folders: Sequence[str]
    tests: TestMap
    work: Callable[[Judge], None]
    seeds: Seeds
    seconds_max: float
    say: Callable[[str], None]
    found: dict[str, Counter[str]]
    _items: dict[str, pytest.Item] = field(default_factory=dict)
    _failed: list[str] = field(default_factory=list)

    def run(self, folders: Sequence[str], scratch: Path) -> int:
        """Collect the tests of some folders, then do the work; gives pytest's exit code."""
        scratch.mkdir(parents=True, exist_ok=True)
        options = [*QUIET, f"--rootdir={self.root}", f"--basetemp={scratch / 'tests'}"]
        return int(pytest.main([*options, *(str(self.root / folder) for folder in folders)], plugins=[self]))

    def prefer(self, file: str, names: Collection[str]) -> None:
        """Have test functions of some names asked early about a file."""
        for test in self._items:
            if test.rpartition("::")[2].partition("[")[0] in names:
                self.found.setdefault(file, Counter())[test] += 1

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests."""
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected: run them without mutants first")
        self._items = {item.nodeid: item for item in session.items}
        self._measure()
        self._functions = Functions(self.root)
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what failed."""
        if report.failed:
            self._failed.append(report.nodeid)

    def _measure(self) -> None:
        files: dict[str, list[str]] = {}
        for test in self._items:
            files.setdefault(test.partition("::")[0], []).append(test)
        missing = self.tests.missing(files)
        _import(_modules(self.root, self.folders))
        _import(self.tests.imports(set(files).difference(missing)))
        for number, file in enumerate(missing, 1):
            self._functions = Functions(self.root)
            ended = in_child(lambda file=file: self._watched(files[file]), 3600, 3600)  # type: ignore[misc]
            seen, imports = ended.value or ({}, [])
            self.tests.put(file, seen, imports)
            _import(imports)
            failing = [test for test, touched in seen.items() if touched.seconds >= NEVER]
            words = f"{len(failing)} fail: {failing[:3]}" if failing else ended.cause
            self.say(f"lines of tests {number}/{len(missing)}  {ended.seconds:6.1f} s  {file}  {words}")

    def _watched(self, tests: Sequence[str]) -> tuple[dict[str, Touched], list[str]]:
        """Run tests one after the other, and see what each runs, and what they import on their way."""
        before = set(sys.modules)
        watcher, seen = Watcher(self.root, self._functions.codes(self.folders)), dict[str, Touched]()
        for index, test in enumerate(tests):
            began = watcher.start()
            found = self._fails(test, tests[index + 1] if index + 1 < len(tests) else None)
            touched = watcher.stop(began)
            seen[test] = touched._replace(seconds=NEVER) if found else touched
        return seen, [name for name in sys.modules if name not in before]

    def _fails(self, test: str, after: str | None) -> bool:
        self._failed.clear()
        item, next_item = self._items[test], None if after is None else self._items[after]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        return bool(self._failed)

    def judge(self, mutant: Mutant) -> Result:
        """Break, and see who notices."""
        tests = self._tests_for(mutant)
        seconds = sum(self.tests.seconds(test) for test in tests)
        tree = mutated(self.root, mutant, find_edits)
        if mutant.outer is None:
            work: Callable[[], str] = lambda: self._imported_again(mutant, tree, tests)  # noqa: E731
        else:
            work = lambda: self._replaced(mutant, tree, tests)  # noqa: E731
        cpu_seconds = 5 + 3 * seconds + IMPORT_SECONDS * (mutant.outer is None)
        ended = in_child(work, cpu_seconds, 60 + 20 * seconds)
        if ended.cause.startswith("error"):
            raise RuntimeError(f"{mutant.key} could not be judged: {ended.cause}")
        by = ended.cause or ended.value
        if by in self._items:
            self.found.setdefault(mutant.key.file, Counter())[by] += 1
        return Result(by, len(tests), round(ended.seconds, 2))

    def _replaced(self, mutant: Mutant, tree: object, tests: Sequence[str]) -> str:
        try:
            if not self._functions.replace(mutant.key.file, tree):  # type: ignore[arg-type]
                return self._imported_again(mutant, tree, tests)
        except (SyntaxError, ValueError) as error:
            return f"error: {error}"
        for index, test in enumerate(tests):
            if self._fails(test, tests[index + 1] if index + 1 < len(tests) else None):
                return test
        return self._ask_seeds(mutant)

    def _imported_again(self, mutant: Mutant, tree: object, tests: Sequence[str]) -> str:
        forget(self.root, mutant.key.file, tree)  # type: ignore[arg-type]
        reports = _Reports()
        if tests:
            options = [*QUIET, f"--rootdir={self.root}", "-x", "--basetemp", str(self._basetemp())]
            code = pytest.main([*options, *(str(self.root / test) for test in tests)], plugins=[reports])
            if code != pytest.ExitCode.OK:
                return reports.failed[0] if reports.failed else f"error: {code!r}"
        return self._ask_seeds(mutant)

    def _basetemp(self) -> object:
        return next(iter(self._items.values())).config.option.basetemp

    def _ask_seeds(self, mutant: Mutant) -> str:
        for name, is_wrong in self.seeds(mutant.key.file):
            if is_wrong():
                return name
        return ""

    def _tests_for(self, mutant: Mutant) -> list[str]:
        """The tests to run, those that are near to the line and quick first."""
        tests = sorted(self._touching(mutant), key=functools.partial(self._rank, mutant))
        chosen, seconds = [], 0.0
        for test in tests:
            seconds += self.tests.seconds(test)
            if seconds > self.seconds_max and chosen:
                break
            chosen.append(test)
        return chosen

    def _rank(self, mutant: Mutant, test: str) -> tuple[float, float]:
        """First the file's own quick ones, then what found something in the file for little, then near ones rather."""
        seconds, distance = self.tests.seconds(test) + 0.05, _distance(mutant.key.file, test)
        if not distance and seconds < QUICK_SECONDS:
            return -NEVER, seconds
        if finds := self.found.get(mutant.key.file, Counter())[test]:
            return -finds / seconds, 0.0
        return 1.0, random.Random(f"{mutant.key}{test}").random() + distance / 4

    def _touching(self, mutant: Mutant) -> set[str]:
        file = mutant.key.file
        if mutant.outer is None:
            found = self.tests.of_file(file)
            for other in _others_that_name(self.root, self.folders, mutant):
                found |= self.tests.of_file(other)
        else:
            name, first = mutant.outer
            tests = dict(self.tests.of_function(file, name))
            lines = set(range(mutant.line - first, mutant.last_line - first + 1))
            found = {test for test, ran in tests.items() if lines.intersection(ran)} or set(tests)
        return {test for test in found if test in self._items and self.tests.seconds(test) < NEVER}


def _others_that_name(root: Path, folders: Iterable[str], mutant: Mutant) -> Iterator[str]:
    """Files that use a constant that the import computes."""
    text = (root / mutant.key.file).read_text().splitlines()[: mutant.line]
    named = next((found[1] for line in text[::-1] if (found := re.match(r"(?:    )?(\w+)\b.*=", line))), None)
    if named is None:
        return
    word = re.compile(rf"\b{re.escape(named)}\b")
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if word.search(path.read_text()):
                yield str(path.relative_to(root))


def _distance(file: str, test: str) -> int:
    """How far a test is from a file by their paths: 0 is the file's own, 1 anything else of its folder, 2 the rest."""
    path, tests = PurePosixPath(file), PurePosixPath(test.partition("::")[0])
    folders = tuple(part for part in path.parts[:-1] if part != "dredge")
    same_folder = tests.parts[:-1][-len(folders) :] == folders
    return 2 - same_folder - (same_folder and tests.stem.startswith(f"test_{path.stem}"))


def _import(names: Iterable[str]) -> None:
    """Import once what each mutant's tests would import again, in a process of their own."""
    for name in names:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)


def _modules(root: Path, folders: Iterable[str]) -> Iterator[str]:
    """The product's modules, of those packages that the tests use: lines of what is imported later are not seen."""
    for folder in folders:
        if folder in sys.modules:
            for path in sorted((root / folder).rglob("*.py")):
                if path.stem != "__main__":
                    name = ".".join(path.relative_to(root).with_suffix("").parts)
                    yield name.removesuffix(".__init__")


class _Reports:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
