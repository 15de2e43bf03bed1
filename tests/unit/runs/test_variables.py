"""A Variable that bound earlier runs and is missing now stops the run until a person confirms that it was removed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dredge.errors import ConfigError, RefusedError
from dredge.runs.consents import bound_by, check_variables, forget_variable
from dredge.storage import ObjectWriter, open_writer
from tests.support.memory_store import forget_memory_store


@pytest.fixture
def state() -> Iterator[ObjectWriter]:
    yield open_writer("memory://variables-test")
    forget_memory_store("variables-test")


def check(state: ObjectWriter, **present: bool | None) -> None:
    check_variables(state, "lake", present, "dredge gc")


def test_a_variable_that_never_bound_a_run_may_be_missing(state: ObjectWriter) -> None:
    check(state, policy=False, schedules=None)
    check(state, policy=False, schedules=False)
    assert bound_by(state) == set()


def test_a_missing_variable_stops_every_run_until_it_is_back(state: ObjectWriter) -> None:
    check(state, policy=True, schedules=True)
    for _ in range(2):
        with pytest.raises(RefusedError):
            check(state, policy=False, schedules=True)
        with pytest.raises(RefusedError):
            check(state, policy=True, schedules=False)
    check(state, policy=True, schedules=None)


def test_a_run_that_is_stopped_records_nothing(state: ObjectWriter) -> None:
    check(state, policy=True)
    with pytest.raises(RefusedError):
        check(state, policy=False, schedules=True)
    assert bound_by(state) == {"policy"}


def test_a_person_confirms_one_variable_and_no_other(state: ObjectWriter) -> None:
    check(state, policy=True, schedules=True)
    said = forget_variable(state, "lake", "policy", "not needed any more", "ada")
    assert said is not None
    assert (said.who, said.what) == ("ada", {"variable": "policy"})
    check(state, policy=False, schedules=True)
    with pytest.raises(RefusedError):
        check(state, policy=False, schedules=False)


def test_a_variable_that_binds_runs_again_counts_again(state: ObjectWriter) -> None:
    check(state, policy=True)
    forget_variable(state, "lake", "policy", "moved")
    check(state, policy=False)
    check(state, policy=True)
    with pytest.raises(RefusedError):
        check(state, policy=False)


def test_a_confirmation_needs_a_reason_and_a_variable_that_bound_runs(state: ObjectWriter) -> None:
    assert forget_variable(state, "lake", "policy", "never there") is None
    check(state, policy=True)
    with pytest.raises(ConfigError):
        forget_variable(state, "lake", "policy", " ")
    assert bound_by(state) == {"policy"}
