"""`./run test breakages [NAMES]`: break each guard, or those whose name or module has some text, and see who notices.

The product and its tests are imported once. Each breakage has a process of its own, forked from there, in which the
code of one function is another. Where processes of a test import the product anew, or more than functions change, the
tests run in a copy of the tree.
"""

import gc
import importlib
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from queue import SimpleQueue

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads do not live on in a forked process
import pytest

from tests.mutations.breakages import BREAKAGES, Breakage
from tests.mutations.breaking import ROOT, BrokenTree, break_in_place
from tests.mutations.naming import find_tests

AT_ONCE = 2
SECONDS_MAX = 300.0
"""How long the tests of one breakage may take."""
_ANEW = ("tests/dags/", "tests/pages/", "tests/spark/", "tests/system/", "tests/unit/operators/")
"""Where processes of tests import the product anew, or Airflow, whose database belongs to who imported it first."""
NOTICED, NOT_RUN, NOT_IN_PLACE = 1, -1, 77
"""How pytest ends when a test fails, and how a job ends that cannot run here."""
_OPTIONS = ["--timeout=120", "-q", "-x", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]


def main(arguments: Sequence[str]) -> int:
    """Break guards; gives 1 when a breakage is noticed by nobody, or tests fail without any."""
    chosen = [
        each
        for each in BREAKAGES
        if not arguments or any(part in each.name or part in each.module for part in arguments)
    ]
    assert chosen, f"no breakage has a name or module with {' or '.join(arguments)}"
    began = time.monotonic()
    here = {test for each in chosen for test in find_tests(each.tests) if not test.startswith(_ANEW)}
    _import_tests(here)
    with tempfile.TemporaryDirectory(prefix="dredge-breakages-") as name:
        folder = Path(name)
        jobs = [
            Job("nothing", sorted(here)[half::2], folder / f"whole{half}")
            for half in (0, 1)
            if len(here) > half
        ]
        failed = [job for job in _run_all(jobs) if job.code != 0]
        for job in failed:
            print(f"tests fail though nothing is broken\n{job.said()[-4000:]}")
        if failed:
            return 1
        jobs = [
            Job(each.name, find_tests(each.tests), folder / str(number), (each,))
            for number, each in enumerate(chosen)
        ]
        _run_all([job for job in jobs if not any(test.startswith(_ANEW) for test in job.tests)])
        _run_in_trees([job for job in jobs if job.code in (NOT_RUN, NOT_IN_PLACE)], folder)
        wrong = [job for job in jobs if job.code != NOTICED]
        for job in wrong:
            print(f"\nNOT NOTICED: {job.name} (pytest gave {job.code})\n{job.said()[-1500:]}")
    minutes = (time.monotonic() - began) / 60
    print(f"{len(chosen)} breakages, {len(chosen) - len(wrong)} noticed, {minutes:.1f} minutes")
    return 1 if wrong else 0


@dataclass
class Job:
    name: str  # of the breakage
    tests: list[str]  # as pytest names them
    folder: Path  # for what they write
    breakages: tuple[Breakage, ...] = ()  # what is broken
    code: int = NOT_RUN  # how pytest ended

    def start(self) -> int:
        """Fork; gives the number of the process."""
        self.folder.mkdir()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            output = os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = NOT_IN_PLACE
            try:
                code = self._run()
            except Exception:  # also of what pytest finds at its end, which ends a process of its own well
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        return child

    def _run(self) -> int:
        if not break_in_place(self.breakages):
            return NOT_IN_PLACE
        os.environ["DREDGE_SHRINK"] = "off"
        gc.freeze()  # what is there already is looked through no more, and stays shared with the other processes
        return int(pytest.main([*_OPTIONS, f"--basetemp={self.folder / 'files'}", *self.tests]))

    def run_in(self, root: Path) -> None:
        self.folder.mkdir(exist_ok=True)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AIRFLOW"))
        }
        with (self.folder / "said").open("w") as output:
            self.code = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    *_OPTIONS,
                    f"--basetemp={self.folder / 'files'}",
                    *self.tests,
                ],
                cwd=root,
                env={**kept, "PYTHONPATH": str(root), "DREDGE_SHRINK": "off"},
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode

    def said(self) -> str:
        return (self.folder / "said").read_text(errors="replace")


def _run_all(jobs: Sequence[Job]) -> list[Job]:
    waiting, running = list(reversed(jobs)), dict[int, tuple[Job, float]]()
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            job = waiting.pop()
            running[job.start()] = job, time.monotonic()
        for child, (job, began) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            seconds = time.monotonic() - began
            if ended:
                job.code = os.waitstatus_to_exitcode(status)
                del running[child]
                _tell(job.name, job.code, seconds)
            elif job.breakages and seconds > SECONDS_MAX:
                os.killpg(child, 9)
        time.sleep(0.01)
    return list(jobs)


def _tell(name: str, code: int, seconds: float) -> None:
    words = {0: "all tests pass", NOTICED: "noticed", NOT_IN_PLACE: "in a copy of the tree, later"}
    print(f"{seconds:6.1f} s  {words.get(code, f'pytest gave {code}')}: {name}", flush=True)


def _import_tests(tests: Iterable[str]) -> None:
    sys.path.insert(0, str(ROOT))
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    importlib.import_module("tests.conftest")  # first: it says where Airflow's files go
    for file in sorted({test.partition("::")[0] for test in tests}):
        importlib.import_module(file.removesuffix(".py").replace("/", "."))


def _run_in_trees(jobs: Sequence[Job], folder: Path) -> None:
    trees: SimpleQueue[BrokenTree] = SimpleQueue()
    for number in range(min(AT_ONCE, len(jobs))):
        trees.put(BrokenTree(folder / f"tree{number}"))

    def run(job: Job) -> None:
        tree, began = trees.get(), time.monotonic()
        try:
            with tree.broken(job.breakages):
                job.run_in(tree.root)
        finally:
            trees.put(tree)
        _tell(job.name, job.code, time.monotonic() - began)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, jobs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
