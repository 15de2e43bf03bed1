"""Breaks, runs the tests that touch the line, and says who noticed.

One process imports the product and the tests once, as a plugin of pytest that has its own way of running what pytest
collected. Each mutant lives and dies in a fork of it. Near tests are asked first; those further away are measured when
the first mutant that near ones did not notice wants them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import random
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.mutations.mutants.applying import Functions, forget
from tests.mutations.mutants.children import allow_cpu, in_child
from tests.mutations.mutants.finding import find_edits
from tests.mutations.mutants.mutant import Mutant, mutated
from tests.mutations.mutants.nearness import Nearness
from tests.mutations.mutants.results import Result
from tests.mutations.mutants.touching import TestMap, Touched, Watcher

QUIET = (
    *("-qq", "--no-header", "--no-summary", "-s", "-o", "timeout=0", "--assert=plain"),
    *("-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
NEVER = 1e9
"""What a test takes that fails on the whole product: it is not asked."""
QUICK_SECONDS = 0.3
IMPORT_SECONDS = 20
"""What it may take to import the product and the tests again."""
SPARE_SECONDS = 2
"""What any test may take beyond three times what it took once."""
IDLE_SECONDS = 15
STARTS_THREADS = frozenset({"icechunk"})
"""Packages whose import starts threads. A child has none of them and would wait for them for ever, so each imports the
package itself."""

SEEDS_SECONDS = 60

type Seeds = Callable[[str], Iterator[tuple[str, Callable[[], bool]]]]
"""Gives, for a file, names of further checks that take longer, each of which tells whether something is wrong."""
NO_SEEDS: Seeds = lambda _: iter(())  # noqa: E731


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
        reach: up to which ring around a file tests are asked about it.
        say: tells of progress.
        found: what each test found in each file until now.
    """

    root: Path
    folders: Sequence[str]
    tests: TestMap
    work: Callable[[Judge], None]
    seeds: Seeds
    seconds_max: float
    reach: int
    say: Callable[[str], None]
    found: dict[str, Counter[str]]
    _items: dict[str, pytest.Item] = field(default_factory=dict)
    _failed: list[str] = field(default_factory=list)
    _finders: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

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
        self._files: dict[str, list[str]] = {}
        for test in self._items:
            self._files.setdefault(test.partition("::")[0], []).append(test)
        self._nearness = Nearness(self.root)
        self._rings = functools.cache(lambda file: self._nearness.rings(file, self._files))
        self._take_stock(_modules(self.root, self.folders))
        if kernels := sys.modules.get("dredge.compiled"):
            kernels.kernels()
        self._take_stock(self.tests.imports(set(self._files).difference(self.tests.missing(self._files))))
        self.work(self)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> pytest.TestReport | None:
        """Say that a test failed, without drawing where: nobody reads it."""
        if call.excinfo is None or issubclass(call.excinfo.type, pytest.skip.Exception):
            return None
        return pytest.TestReport(item.nodeid, item.location, {}, "failed", "", call.when)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what failed."""
        if report.failed:
            self._failed.append(report.nodeid)

    def _take_stock(self, names: Iterable[str]) -> None:
        """Import something, and have the children share what lives by then with this process."""
        before = len(sys.modules)
        _import(names)
        if len(sys.modules) > before or not hasattr(self, "_functions"):
            gc.unfreeze()
            gc.collect()
            self._functions = Functions(self.root)
            gc.freeze()

    def _measure(self, files: Collection[str]) -> None:
        """See which lines the tests of some files run, where that is not known."""
        for file in self.tests.missing({file: self._files[file] for file in files}):
            ended = in_child(lambda file=file: self._watched(self._files[file]), 3600, 600)  # type: ignore[misc]
            seen, imports = ended.value or ({}, [])
            self.tests.put(file, seen, imports)
            self._take_stock(imports)
            failing = [test for test, touched in seen.items() if touched.seconds >= NEVER]
            words = f"{len(failing)} fail: {failing[:3]}" if failing else ended.cause
            self.say(f"lines of tests  {ended.seconds:6.1f} s  {file}  {words}")

    def _watched(self, tests: Sequence[str]) -> tuple[dict[str, Touched], list[str]]:
        """Run tests one after the other, and see what each runs, and what they import on their way."""
        before = set(sys.modules)
        watcher, seen = Watcher(self.root, self._functions.codes(self.folders)), dict[str, Touched]()
        if tests:
            self._fails(tests[0], None)  # what is made once for a process is nobody's time
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
        rings = self._rings(mutant.key.file)[: self.reach + 1]
        if mutant.outer is None:  # the import costs more than the tests: once for all of them
            rings = [[file for ring in rings for file in ring]]
        done, seconds, count = Result("", 0, 0.0), 0.0, 0
        for number, ring in enumerate(rings, 1):
            self._measure(ring)
            tests = self._tests_for(mutant, ring, seconds)
            seeds = self.seeds if number == len(rings) else NO_SEEDS
            if tests or seeds is not NO_SEEDS:
                seconds += sum(self.tests.seconds(test) for test in tests)
                result = self._ask(mutant, tests, seeds)
                count += len(tests)
                done = Result(result.by, count, round(done.seconds + result.seconds, 2))
            if done.by:
                break
        return self._noted(mutant, done)

    def _noted(self, mutant: Mutant, result: Result) -> Result:
        if result.by in self._items:
            self.found.setdefault(mutant.key.file, Counter())[result.by] += 1
            self._finders[mutant.key.file, mutant.key.function][result.by] += 1
        return result

    def _ask(self, mutant: Mutant, tests: Sequence[str], seeds: Seeds) -> Result:
        """Run tests, then seeds, until something notices."""
        tree = mutated(self.root, mutant, find_edits)
        if mutant.outer is None:
            work: Callable[[], str] = lambda: self._imported_again(mutant, tree, tests, seeds)  # noqa: E731
        else:
            work = lambda: self._replaced(mutant, tree, tests, seeds)  # noqa: E731
        seconds = sum(self.tests.seconds(test) for test in tests)
        most = 5 + 3 * seconds + SPARE_SECONDS * len(tests) + IMPORT_SECONDS * (mutant.outer is None)
        ended = in_child(work, most + SEEDS_SECONDS * (seeds is not NO_SEEDS), IDLE_SECONDS)
        if ended.cause.startswith("error"):
            raise RuntimeError(f"{mutant.key} could not be judged: {ended.cause}")
        return Result(ended.cause or ended.value, len(tests), round(ended.seconds, 2))

    def _replaced(self, mutant: Mutant, tree: object, tests: Sequence[str], seeds: Seeds) -> str:
        try:
            if not self._functions.replace(mutant.key.file, tree):  # type: ignore[arg-type]
                return self._imported_again(mutant, tree, tests, seeds)
        except (SyntaxError, ValueError) as error:
            return f"error: {error}"
        for index, test in enumerate(tests):
            allow_cpu(SPARE_SECONDS + 3 * self.tests.seconds(test))
            if self._fails(test, tests[index + 1] if index + 1 < len(tests) else None):
                return test
        allow_cpu(SEEDS_SECONDS)
        return _ask_seeds(mutant, seeds)

    def _imported_again(self, mutant: Mutant, tree: object, tests: Sequence[str], seeds: Seeds) -> str:
        forget(self.root, mutant.key.file, tree)  # type: ignore[arg-type]
        reports = _Reports()
        if tests:
            options = [*QUIET, f"--rootdir={self.root}", "-x", "--basetemp", str(self._basetemp())]
            code = pytest.main([*options, *(f"{self.root}/{test}" for test in tests)], plugins=[reports])
            if code != pytest.ExitCode.OK:
                return reports.failed[0] if reports.failed else f"error: {code!r}"
        return _ask_seeds(mutant, seeds)

    def _basetemp(self) -> object:
        return next(iter(self._items.values())).config.option.basetemp

    def _tests_for(self, mutant: Mutant, files: Iterable[str], seconds: float) -> list[str]:
        """The tests of some files to run, those that are near to the line and quick first."""
        within = {test for file in files for test in self._files[file]}
        tests = sorted(within & self._touching(mutant), key=functools.partial(self._rank, mutant))
        chosen: list[str] = []
        for test in tests:
            seconds += self.tests.seconds(test)
            if seconds > self.seconds_max and chosen:
                break
            chosen.append(test)
        return chosen

    def _rank(self, mutant: Mutant, test: str) -> tuple[int, float]:
        """First what found something in the same function, then the file's own quick ones, then what found something
        in the file for little, then near ones rather."""
        seconds = self.tests.seconds(test) + 0.05
        if finds := self._finders[mutant.key.file, mutant.key.function][test]:
            return 0, -finds / seconds
        distance = self._nearness.of(test.partition("::")[0], mutant.key.file)
        if not distance and seconds < QUICK_SECONDS:
            return 1, seconds
        if finds := self.found.get(mutant.key.file, Counter())[test]:
            return 2, -finds / seconds
        return 3, random.Random(f"{mutant.key}{test}").random() + distance / 4

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
            found = {test for test, ran in tests.items() if lines.intersection(ran)}
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


def _ask_seeds(mutant: Mutant, seeds: Seeds) -> str:
    for name, is_wrong in seeds(mutant.key.file):
        if is_wrong():
            return name
    return ""


def _import(names: Iterable[str]) -> None:
    """Import once what each mutant's tests would import again, in a process of their own."""
    for name in names:
        if name.partition(".")[0] in STARTS_THREADS:
            continue
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)


def _modules(root: Path, folders: Iterable[str]) -> Iterator[str]:
    """The product's modules, of those packages that the tests use: lines of what is imported later are not seen."""
    for folder in folders:
        for package in [name for name, module in sys.modules.items() if _is_at(module, root / folder)]:
            for path in sorted((root / folder).rglob("*.py")):
                if path.stem != "__main__":
                    name = ".".join((package, *path.relative_to(root / folder).with_suffix("").parts))
                    yield name.removesuffix(".__init__")


def _is_at(module: object, folder: Path) -> bool:
    """Whether a package is that folder, or a link to it."""
    return any(Path(path).resolve() == folder for path in getattr(module, "__path__", ()))


class _Reports:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
