"""A Variable that bound earlier runs and is missing now stops the run until a person confirms that it was removed."""

from collections.abc import Iterator

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.gc.run import open_state
from dredge.runs.consents import (
    PEOPLE,
    Consent,
    check_variables,
    forget_variable,
    login_name,
    read_bound_variables,
    read_consents,
    record_consent,
)
from dredge.storage import ObjectWriter, open_writer
from tests.support.gc import World, make_world
from tests.support.memory_store import forget_memory_store


@pytest.fixture
def state() -> Iterator[ObjectWriter]:
    yield open_writer("memory://variables-test")
    forget_memory_store("variables-test")


def check(state: ObjectWriter, **present: bool | None) -> None:
    check_variables(state, "lake", present, "dredge gc")


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
    assert read_bound_variables(state) == {"policy"}


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
    assert read_bound_variables(state) == {"policy"}


OWN, LIFT_BLOCK = "own", "lift-block"


def _state(world: World) -> ObjectWriter:
    return open_state(world.lake.namespace)


def test_a_statement_is_kept_with_who_when_why_and_what() -> None:
    world = make_world()
    state = _state(world)
    written = record_consent(state, OWN, "lake", "  the server moved  ", {"url": "http://b"}, "ada")
    assert read_consents(state) == [written]
    assert written == Consent(
        consent_id=written.consent_id,
        kind=OWN,
        repository="lake",
        who="ada",
        at=world.lake.clock.now,
        why="the server moved",
        what={"url": "http://b"},
    )
    assert record_consent(state, OWN, "lake", "again").who == login_name()


@pytest.mark.parametrize("why", ["", "  \n"])
def test_without_a_reason_nothing_is_kept(why: str) -> None:
    state = _state(make_world())
    with pytest.raises(ConfigError):
        record_consent(state, OWN, "lake", why)
    assert read_consents(state) == []


def test_a_damaged_statement_is_an_error_that_names_the_file() -> None:
    state = _state(make_world())
    name = f"{PEOPLE}/{record_consent(state, OWN, 'lake', 'why').consent_id}-{OWN}.json"
    state.put(name, b'{"kind": "own"}')
    with pytest.raises(FormatError, match=name):
        read_consents(state, OWN)
    assert read_consents(state, LIFT_BLOCK) == []
