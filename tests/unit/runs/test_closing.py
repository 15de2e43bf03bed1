"""The first error of a piece of work is the one that is raised, whatever goes wrong at its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.gc import steps
from dredge.runs.failures import closing_with


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


def test_an_error_of_the_end_alone_is_raised_and_the_end_is_done_once() -> None:
    done: list[int] = []
    with closing_with(lambda: done.append(1), "the end"):
        pass
    assert done == [1]
    with pytest.raises(UnavailableError), closing_with(_raising(UnavailableError("end")), "the end"):
        pass


def test_a_local_run_whose_report_fails_too_shows_the_first_error(monkeypatch: pytest.MonkeyPatch) -> None:
    first = RefusedError("of the first step")
    monkeypatch.setattr(steps, "slice_listing", lambda *_: _raising(first)(), raising=False)
    monkeypatch.setattr(
        steps, "save_report", lambda *_: _raising(UnavailableError("report"))(), raising=False
    )
    with pytest.raises(RefusedError) as caught:
        steps.run_steps(SimpleNamespace(going_on=nullcontext), None)  # type: ignore[arg-type]
    assert caught.value is first
