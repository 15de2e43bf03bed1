"""Every breakage finds its guard and its tests; `./run test breakages` breaks the guards."""

import functools
from types import CodeType

import pytest

from dredge.gc.check_limits import guards
from tests.mutations.breakages import BREAKAGES, Breakage
from tests.mutations.breakages.guarding import GUARDS
from tests.mutations.breaking import broken_tree_of, file_of
from tests.mutations.edits import NotThereError, Put
from tests.mutations.naming import find_tests


def test_names_of_breakages_are_distinct_and_so_is_what_they_break() -> None:
    assert len({each.name for each in BREAKAGES}) == len(BREAKAGES) >= 25
    broken = [(each.module, each.function, repr(each.edit)) for each in BREAKAGES]
    assert sorted(set(broken)) == sorted(broken)


def test_every_guard_on_a_run_is_left_out_once() -> None:
    assert [guard.__name__ for guard in guards.GUARDS] == list(GUARDS)


@functools.cache
def _code(module: str) -> CodeType:
    return compile(broken_tree_of(module, []), file_of(module), "exec")


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name.replace(" ", "-"))
def test_a_breakage_changes_a_node_that_is_there_and_names_tests_that_are_there(breakage: Breakage) -> None:
    broken = broken_tree_of(breakage.module, [breakage])
    assert compile(broken, file_of(breakage.module), "exec") != _code(breakage.module)
    assert find_tests(breakage.tests)


@pytest.mark.parametrize(
    "gone",
    [{"module": "dredge.no_such_module"}, {"function": "no_such_function"}, {"edit": Put("If", 999, False)}],
)
def test_a_breakage_whose_guard_is_gone_says_its_name(gone: dict[str, object]) -> None:
    breakage = BREAKAGES[0]._replace(**gone)
    with pytest.raises(NotThereError) as error:
        broken_tree_of(breakage.module, [breakage])
    assert breakage.name in str(error.value)
