"""Every guard that is broken on purpose makes a test fail that `./run test` runs.

That the guards are where `breakages` says is looked at in every run; they are broken in `./run test long`.
"""

from __future__ import annotations

import pytest

from dredge.gc.check_limits import guards
from tests.mutations.breakages import BREAKAGES, Breakage
from tests.mutations.breakages.guarding import GUARDS
from tests.mutations.broken_tree import BrokenTree, find_tests, require_text

each = pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name.replace(" ", "-"))


def test_names_of_breakages_are_distinct() -> None:
    assert len({breakage.name for breakage in BREAKAGES}) == len(BREAKAGES) >= 25


def test_every_guard_on_a_run_is_left_out_once() -> None:
    listed = [f"{guard.__module__.rpartition('.')[2]}.{guard.__name__}" for guard in guards.GUARDS]
    assert listed == list(GUARDS)


@each
def test_the_guard_and_its_tests_are_where_the_list_says(breakage: Breakage) -> None:
    text = require_text(breakage).read_text()
    compile(text.replace(breakage.old, breakage.new), breakage.file, "exec")
    assert find_tests(breakage.tests)


def test_a_guard_that_was_written_anew_is_told_with_its_place() -> None:
    moved = BREAKAGES[0]._replace(file="dredge/errors.py")
    place = f"occurs 0 times in dredge/errors.py; it occurs in {BREAKAGES[0].file}"
    with pytest.raises(AssertionError, match=place):
        require_text(moved)
    with pytest.raises(AssertionError, match="there is no file"):
        require_text(BREAKAGES[0]._replace(file="dredge/nothing.py"))
    with pytest.raises(AssertionError, match="it occurs nowhere else"):
        require_text(BREAKAGES[0]._replace(old="no such text"))


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> BrokenTree:
    return BrokenTree(tmp_path_factory.mktemp("broken"))


@pytest.mark.long
@each
def test_a_broken_guard_is_noticed(breakage: Breakage, tree: BrokenTree) -> None:
    with tree.broken(breakage):
        failed, said = tree.run(find_tests(breakage.tests, tree.root))
    assert failed, f"{breakage.name}: nobody noticed\n{said[-2000:]}"


@pytest.mark.long
def test_the_same_tests_pass_where_every_guard_is_whole(tree: BrokenTree) -> None:
    names = sorted({name for breakage in BREAKAGES for name in breakage.tests})
    failed, said = tree.run(find_tests(names, tree.root))
    assert not failed, said[-4000:]
