"""The shape of the error tree: retry policies and exit codes depend on it."""

from __future__ import annotations

from dredge import errors


def test_every_family_has_its_own_kind_and_exit_code() -> None:
    families = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.DredgeError)]
    assert len({family.kind for family in families}) == len(families)
    direct = [family for family in families if errors.DredgeError in family.__bases__]
    assert len({family.exit_code for family in direct}) == len(direct) == 8


def test_a_held_lease_is_a_refusal_and_bad_input_is_a_value_error() -> None:
    assert issubclass(errors.LeaseHeldError, errors.RefusedError)
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.NotFoundError, LookupError)
