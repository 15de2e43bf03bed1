"""An error promises that nothing was touched only where nothing was."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError, DredgeError, PartialError, UnavailableError
from dredge.runs.failures import as_partial, not_deleted, partial_after


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
