"""What `./run mutate` breaks, who notices, and what it says."""

from __future__ import annotations

import ast
import importlib
import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutations.__main__ import DANGEROUS
from tests.mutations.mutants import judging
from tests.mutations.mutants.applying import Functions
from tests.mutations.mutants.children import allow_cpu, in_child
from tests.mutations.mutants.equivalent import read_equivalents, stale_ones
from tests.mutations.mutants.finding import find_edits
from tests.mutations.mutants.judged import adopt_judged, save_judged
from tests.mutations.mutants.mutant import Key, mutants_of, mutated
from tests.mutations.mutants.nearness import Nearness
from tests.mutations.mutants.results import HEADS, Result, Results, figures, table

ROOT = Path(__file__).resolve().parents[2]


def edits(code: str) -> set[str]:
    return {f"{edit.old} -> {edit.new}" for edit in find_edits(ast.parse(dedent(code)))}


BODY = [
    ("if age > limit:\n    return 1", {"age > limit -> True", "age > limit -> False", "age > limit -> age >= limit"}),
    ("if a and b:\n    f()", {"a and b -> True", "a and b -> False", "a and b -> a", "a and b -> b", "f() -> pass"}),
    ("x = live | staged", {"live | staged -> live", "live | staged -> staged"}),
    ("x = listed - live", {"listed - live -> listed"}),
    ("x = key == other", {"key == other -> key != other"}),
    ("x = [a for a in b if a in c]", {"a in c -> True", "a in c -> False"}),
    ("x = min(a, b)", {"min(a, b) -> max(a, b)"}),
    ("x = pc.and_(a, pc.invert(b))", {"pc.and_(a, pc.invert(b)) -> pc.or_(a, pc.invert(b))", "pc.invert(b) -> b"}),
    ("x = a.union(b)", {"a.union(b) -> a.intersection(b)", "a.union(b) -> a"}),
    ("fence()\nsweep()", {"fence() -> pass", "sweep() -> pass", "fence() -> first sweep()"}),
    ("x = read(a)\ny = look(x)", set()),
    ("put(key, etag=etag)", {"put(key, etag=etag) -> pass", "put(…, etag=etag) -> without etag"}),
    ("x = timedelta(hours=24)", {"24 -> 48", "24 -> 12"}),
    ("x = f(dry_run=True)", {"True -> False"}),
    ("for a in b:\n    if c:\n        continue\n    d += 1", {"c -> True", "c -> False", "d += 1 -> pass"}),
    ("log.info('%s', a and b)", set()),
    ("if len(a) < _EXAMPLES_MAX:\n    b = 1", set()),
    ("if a and b:\n    text = f'{a} came'\n    text += ' and went' if c and d else f'{d}'", set()),
    ("if a:\n    text = f'{a} came'\n    done()", {"a -> True", "a -> False", "done() -> pass"}),
    ("if a:\n    key = f'{b}/{c}'", {"a -> True", "a -> False"}),
    ("raise ValueError(a or b)", {"raise ValueError(a or b) -> pass"}),
    ("x: int | None = f'{a or b}'", set()),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), BODY)
def test_each_rule_breaks_what_it_says_and_nothing_else(body: str, expected: set[str]) -> None:
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    assert edits(f"def f(a, b):\n{indented}\n") == expected


def test_answers_constants_and_tables_are_broken_too() -> None:
    assert edits("def is_old(a) -> bool:\n    return a.old\n") == {"a.old -> True", "a.old -> False"}
    assert edits("def find(a) -> str | None:\n    return a.name\n") == {"a.name -> None"}
    assert edits("AGE_MIN = timedelta(hours=25)\nNAME = 'x'\n") == {"25 -> 50", "25 -> 12"}
    assert edits("EXAMPLES_MAX = 10\n") == set()
    assert edits("GUARDS = (a, b)\n") == {"(a, b) -> (b,)", "(a, b) -> (a,)"}


def test_every_mutant_of_a_file_compiles_and_differs(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text(GUARD)
    whole, seen = ast.unparse(ast.parse(GUARD)), set[str]()
    for mutant in mutants_of(tmp_path, "guard.py", find_edits):
        tree = mutated(tmp_path, mutant, find_edits)
        compile(tree, "guard.py", "exec")
        seen.add(ast.unparse(tree))
    assert len(seen) == len(mutants_of(tmp_path, "guard.py", find_edits)) > 10
    assert whole not in seen


def test_a_child_that_hangs_or_dies_is_ended_and_told() -> None:
    assert in_child(lambda: [1], 10, 10).value == [1]
    assert in_child(lambda: time.sleep(100), 10, 0.1).cause == "time"
    assert in_child(lambda: _work_for_seconds(0.3), 10, 0.1).value is None, "work is no waiting"
    assert in_child(lambda: os.abort(), 10, 10).cause.startswith("status")
    ended_from_outside = in_child(lambda: os.kill(os.getpid(), signal.SIGTERM), 10, 10)
    assert ended_from_outside.cause.startswith("error"), "no test noticed anything"
    began = time.monotonic()
    # What a child started and left behind keeps nobody waiting.
    assert in_child(lambda: subprocess.Popen(["sleep", "100"]).pid, 10, 10).cause == ""
    assert time.monotonic() - began < 50


def test_no_process_that_a_child_left_behind_lives_on() -> None:
    """A broken product may halt what it started, which would stay for ever."""

    def work() -> list[int]:
        script = "sleep 100 & echo $$ $!; kill -STOP $$"
        halted = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
        assert halted.stdout is not None
        return [int(pid) for pid in halted.stdout.readline().split()]

    halted = in_child(work, 10, 10).value
    assert len(halted) == 2
    assert not [pid for pid in halted if Path(f"/proc/{pid}").exists()]


def test_a_package_whose_import_starts_threads_is_left_to_each_child() -> None:
    def imported() -> list[bool]:
        for name in [name for name in sys.modules if name.partition(".")[0] in {"icechunk", "wave"}]:
            del sys.modules[name]
        judging._import(["icechunk.config", "icechunk", "wave"])
        return [name in sys.modules for name in ("icechunk", "wave")]

    assert in_child(imported, 60, 60).value == [False, True]


def _work_for_seconds(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_a_test_that_takes_much_longer_than_once_is_ended() -> None:
    def work() -> None:
        allow_cpu(0)
        _work_for_seconds(10)

    ended = in_child(work, 20, 20)
    assert ended.cause == "time"
    assert ended.seconds < 5


def test_near_tests_are_those_that_mirror_the_path_then_those_that_name_the_file(tmp_path: Path) -> None:
    """Each test of a room may say anything about it; further away it is said by name, or not at all."""
    texts = {
        "unit/gc/subtract/test_holds.py": "",
        "unit/gc/subtract/test_step.py": "",
        "unit/gc/test_whole_run.py": "",
        "unit/pages/test_pages.py": "from dredge.gc.subtract import (\n    classify,\n    holds,\n)",
        "unit/runs/test_tasks.py": "monkeypatch.setattr('dredge.gc.subtract.holds.HOLDS', [])",
        "unit/lakefs/test_client.py": "from dredge.gc.subtract import holdsome",
    }
    for name, text in texts.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rings = Nearness(tmp_path).rings("dredge/gc/subtract/holds.py", [f"tests/{name}" for name in texts])
    assert rings == [
        ["tests/unit/gc/subtract/test_holds.py"],
        ["tests/unit/gc/subtract/test_step.py"],
        [
            "tests/unit/gc/test_whole_run.py",
            "tests/unit/pages/test_pages.py",
            "tests/unit/runs/test_tasks.py",
        ],
        ["tests/unit/lakefs/test_client.py"],
    ]


def test_a_function_imported_through_a_link_is_broken_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rooms").mkdir()
    (tmp_path / "rooms/linked_room.py").write_text("def is_old(age):\n    return age > 3\n")
    (tmp_path / "wheel").symlink_to(tmp_path / "rooms")
    monkeypatch.syspath_prepend(str(tmp_path / "wheel"))
    module = importlib.import_module("linked_room")
    mutant = next(m for m in mutants_of(tmp_path, "rooms/linked_room.py", find_edits) if ">=" in m.key.new)
    tree = mutated(tmp_path, mutant, find_edits)
    assert not module.is_old(3)
    assert Functions(tmp_path).replace("rooms/linked_room.py", tree) == 1
    assert module.is_old(3)


def test_the_default_of_an_argument_is_broken_for_whoever_calls_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "default_room.py").write_text(DEFAULTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("default_room")
    functions, ran = Functions(tmp_path), {}
    for mutant in mutants_of(tmp_path, "default_room.py", find_edits):
        if mutant.key.old in {"1", "2"}:
            tree = mutated(tmp_path, mutant, find_edits)

            def work(tree: ast.Module = tree) -> tuple[object, ...]:
                replaced = functions.replace("default_room.py", tree)
                return replaced, *module.Clock().read(), module.Clock().is_marked()

            ran[mutant.key.new, mutant.line, mutant.last_line] = in_child(work, 10, 10).value
    day = timedelta(days=1)
    assert ran == {
        ("2", 9, 13): (1, 2 * day, 2 * day, True),
        ("0", 9, 13): (1, 0 * day, 2 * day, True),
        ("4", 11, 13): (1, day, 4 * day, True),
        ("1", 11, 13): (1, day, day, True),
    }, "a test that runs any line of the function is asked; what else has a default keeps it"


def test_what_a_decorator_left_is_known_by_the_decorator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rooms").mkdir()
    (tmp_path / "rooms/decorated_room.py").write_text(
        "def telling(work):\n    def told(age):\n        return work(age)\n    return told\n\n"
        "@telling\ndef is_old(age):\n    return age > 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "rooms"))
    module = importlib.import_module("decorated_room")
    outermost = dict(Functions(tmp_path).codes(["rooms"]))
    assert outermost[module.is_old.__code__] is module.telling.__code__


def test_a_result_counts_for_the_function_as_it_was_judged(tmp_path: Path) -> None:
    source = tmp_path / "guard.py"
    source.write_text(GUARD)
    mutant = next(m for m in mutants_of(tmp_path, "guard.py", find_edits) if m.key.function == "is_old")
    Results(tmp_path / "results", tmp_path).put(mutant, Result("", 1, 0.1))
    source.write_text("# moved\n\n" + GUARD)
    assert Results(tmp_path / "results", tmp_path).get(mutant) == Result("", 1, 0.1)
    source.write_text(GUARD.replace("age > AGE_MAX", "age > AGE_MAX + 0"))
    assert Results(tmp_path / "results", tmp_path).get(mutant) is None


def test_figures_add_up(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text(GUARD)
    mutants = mutants_of(tmp_path, "guard.py", find_edits)
    results = Results(tmp_path / "results", tmp_path)
    for mutant, by in zip(mutants[:3], ("a test", "", "time"), strict=True):
        results.put(mutant, Result(by, 1, 0.1))
    count = figures(mutants, results, {mutants[3].key})["guard.py"]
    assert count == {"broken": 4, "found": 2, "left": 1, "equivalent": 1, "not tried": len(mutants) - 4}
    assert re.fullmatch(rf"all +4 +2 +1 +1 +{len(mutants) - 4}", table({"guard.py": count})[-1])


def test_what_is_kept_with_the_code_counts_until_a_function_changes(tmp_path: Path) -> None:
    source = tmp_path / "guard.py"
    source.write_text(GUARD)
    mutants = mutants_of(tmp_path, "guard.py", find_edits)
    results, equivalent, untried = Results(tmp_path / "results", tmp_path), mutants[-1].key, mutants[0]
    for number, mutant in enumerate(mutants[1:-1]):
        results.put(mutant, Result("" if number == 1 else "a test", 1, 0.1))
    save_judged(tmp_path, mutants, results, {equivalent})
    before = figures(mutants, results, {equivalent})

    def again() -> Results:
        fresh = Results(tmp_path / "lost", tmp_path)
        adopt_judged(tmp_path / "judged.tsv", mutants_of(tmp_path, "guard.py", find_edits), fresh)
        return fresh

    assert figures(mutants, again(), {equivalent}) == before
    numbers = " | ".join(str(before["guard.py"][head]) for head in HEADS)
    assert f"| guard.py | {numbers} |" in (tmp_path / "README.md").read_text()
    assert again().get(untried) is None
    assert again().get(mutants[-1]) is None, "who takes a sentence out of the list has it judged"
    source.write_text(GUARD.replace("age > AGE_MAX", "age > AGE_MAX + 0"))
    changed = again()
    for mutant in mutants_of(tmp_path, "guard.py", find_edits):
        known = changed.get(mutant) is not None
        assert known == (mutant.key.function != "is_old" and mutant.key not in {equivalent, untried.key})


def test_an_equivalent_mutant_says_why_once(tmp_path: Path) -> None:
    entry = '[[mutant]]\nfile = "a.py"\nfunction = "f"\nold = "a"\nnew = "b"\n'
    listed = tmp_path / "equivalent.toml"
    listed.write_text(entry)
    with pytest.raises(ValueError, match="without saying why"):
        read_equivalents(listed)
    listed.write_text(f'{entry}why = "so"\n' * 2)
    with pytest.raises(ValueError, match="twice"):
        read_equivalents(listed)
    listed.write_text(f'{entry}why = "so"\n')
    assert read_equivalents(listed) == {Key("a.py", "f", "a", "b", 1): "so"}


def test_every_equivalent_mutant_of_the_list_can_still_be_made() -> None:
    listed = read_equivalents()
    files = {key.file for key in listed}
    gone = [file for file in files if not (ROOT / file).exists()]
    assert not gone, f"tests/mutations/equivalent.toml names files that are gone: {gone}"
    mutants = [mutant for file in files for mutant in mutants_of(ROOT, file, find_edits)]
    stale = stale_ones(listed, mutants, files)
    assert not stale, f"take these out of tests/mutations/equivalent.toml, or say anew why: {stale}"


def test_what_is_broken_when_nothing_is_named_is_there() -> None:
    assert [path for path in DANGEROUS if not (ROOT / path).exists()] == []


DEFAULTS = """\
from datetime import timedelta

MARK = object()

class Clock:
    def read(
        self,
        mark=object(),
        after=timedelta(days=1),
        *,
        before=timedelta(days=2),
    ):
        return after, before

    def is_marked(self, mark=MARK):
        return mark is MARK
"""
GUARD = """\
from datetime import timedelta

AGE_MAX = 10


class Sweep:
    def __init__(self, rows):
        self.rows = rows

    def run(self, age):
        if is_old(age):
            return 0
        done = 0
        while self.rows and done < 3:
            self.rows.pop()
            done += 1
        return done


def is_old(age) -> bool:
    return age > AGE_MAX
"""
TESTS = """\
import pytest

from toy.guard import Sweep

@pytest.mark.parametrize("uri", ["memory://a"])
def test_an_old_apple_is_not_eaten(uri):
    rows = [1, 2]
    assert Sweep(rows).run(11) == 0
    assert rows == [1, 2]

def test_three_are_swept():
    rows = [1, 2, 3, 4]
    assert Sweep(rows).run(9) == 3
    assert rows == [1]
    assert Sweep(rows).run(9) == 1
"""
BOUND = """
def test_a_mark_of_ten_hours_is_swept():
    assert Sweep([1]).run(10) == 1
"""
EQUIVALENT = """
[[mutant]]
file = "toy/guard.py"
function = "Sweep.run"
old = "done < 3"
new = "done <= 3"
why = "a toy needs one"
[[mutant]]
file = "toy/guard.py"
function = "Sweep.run"
old = "done < 5"
new = "done <= 5"
why = "it went away"
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    for name, text in {
        "toy/guard.py": GUARD,
        "tests/test_guard.py": TESTS,
        "equivalent.toml": EQUIVALENT,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n")
    return tmp_path


def mutate(toy: Path, *options: str) -> tuple[int, str, str]:
    fixed = (
        "--root",
        str(toy),
        "--list",
        str(toy / "equivalent.toml"),
        "--product",
        "toy",
        "--tests",
        "tests",
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutations", "toy", *fixed, "--seeds", "0", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_survivors_kills_hangs_and_stale_entries_are_told(toy: Path) -> None:
    code, said, told = mutate(toy)
    assert code == 1, told
    left = [line for line in said.splitlines() if line.startswith("left: ")]
    assert [line.partition(": ")[2].rpartition(":")[0] for line in left] == [
        "toy/guard.py:21 is_old: age > AGE_MAX  ->  age >= AGE_MAX"
    ]
    assert "equivalent.toml names what is no mutant any more: toy/guard.py Sweep.run: done < 5" in said
    by_test = "found by tests/test_guard.py::test_"
    assert f"age > AGE_MAX  ->  False: {by_test}an_old_apple_is_not_eaten" in told
    assert f"done += 1  ->  pass: {by_test}three_are_swept" in told
    assert f"10  ->  20: {by_test}an_old_apple_is_not_eaten" in told, (
        "a constant is read when a file is imported"
    )
    assert "done < 3" not in "".join(line for line in told.splitlines() if "done <= 3" in line)
    assert re.search(r"^all +(\d+) +\d+ +1 +1 +0$", said, re.MULTILINE)

    # What was judged is not judged again; a new test is asked when the survivors are.
    with (toy / "tests/test_guard.py").open("a") as file:
        file.write(BOUND)
    (toy / "equivalent.toml").write_text(EQUIVALENT.rpartition("[[mutant]]")[0])
    code, said, told = mutate(toy)
    assert (code, told) == (1, "")
    code, said, told = mutate(toy, "--survivors")
    assert code == 0, told
    assert told.count("found by") == 1
    assert "found by tests/test_guard.py::test_a_mark_of_ten_hours_is_swept" in told
    assert re.search(r"^all +(\d+) +\d+ +1 +0 +0$", said, re.MULTILINE)
