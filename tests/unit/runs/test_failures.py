"""An error promises that nothing was touched only where nothing was."""

from collections.abc import Callable
from itertools import chain, repeat

import pytest

from dredge.errors import (
    ConfigError,
    DredgeError,
    NotFoundError,
    PartialError,
    RefusedError,
    UnavailableError,
)
from dredge.gc.steps import read_report, run_steps
from dredge.runs.failures import as_partial, closing_with, not_deleted, partial_after
from dredge.runs.tasks import LocalRunner
from tests.support.gc import busy_world
from tests.support.killing import at_writes_of


@pytest.mark.parametrize(
    ("codes", "deleted", "family"),
    [
        ({"AccessDenied"}, 0, ConfigError),
        ({"AccessDenied", "Forbidden"}, 1, PartialError),
        ({"AccessDenied", "SlowDown"}, 0, UnavailableError),
        ({"SlowDown"}, 1, UnavailableError),
        (set[str](), 1, UnavailableError),
    ],
)
def test_only_where_every_object_was_denied_a_person_has_to_act(
    codes: set[str], deleted: int, family: type[DredgeError]
) -> None:
    error = not_deleted("3 objects could not be deleted.", codes, deleted)
    assert type(error) is family


@pytest.mark.parametrize(
    ("error", "changed", "family"),
    [
        (ConfigError("access denied. "), "2 were deleted.", PartialError),
        (ConfigError("access denied"), "", ConfigError),
        (UnavailableError("busy"), "2 were deleted.", UnavailableError),
    ],
)
def test_a_promise_is_taken_back_where_something_was_changed(
    error: DredgeError, changed: str, family: type[DredgeError]
) -> None:
    with pytest.raises(family) as raised, partial_after(lambda: changed):
        raise error
    assert type(raised.value) is type(as_partial(error, changed)) is family
    assert raised.value.__cause__ is (error if family is PartialError else None)


def test_what_was_changed_is_asked_for_when_it_ended() -> None:
    deleted: list[str] = []

    @partial_after(lambda: f"{len(deleted)} was deleted")
    def work() -> None:
        deleted.append("one")
        raise ConfigError("denied")

    with pytest.raises(PartialError):
        work()


def _raising(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


@pytest.mark.parametrize("later", [UnavailableError("later"), ValueError("later")])
@pytest.mark.parametrize("first", [RefusedError("first"), ValueError("first"), KeyboardInterrupt()])
def test_an_error_of_the_end_does_not_hide_the_first(first: BaseException, later: Exception) -> None:
    with pytest.raises(type(first)) as caught, closing_with(_raising(later), "the end"):
        raise first
    assert caught.value is first


def test_a_local_run_whose_report_fails_too_shows_the_first_error() -> None:
    run = busy_world()[0].plan()
    first = RefusedError("of the first step")
    errors = chain([first], repeat(UnavailableError("of the report")))

    def fail() -> None:
        raise next(errors)

    with at_writes_of(f"/{run.plan.run_id}/", fail), pytest.raises(RefusedError) as caught:
        run_steps(run, LocalRunner())
    assert caught.value is first
    with pytest.raises(NotFoundError):
        read_report(run)
