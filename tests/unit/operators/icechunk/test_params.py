"""The form of the Icechunk DAG."""

from __future__ import annotations

from datetime import timedelta

from airflow_dredge.operators.icechunk.params import (
    ALL_FORM,
    COLLECTION,
    EXPIRATION,
    FORM_OF_A_RUN,
    RUN_DEFAULTS,
    WHICH,
    icechunk_params,
)
from tests.support.forms import asked_for, read_by, sat_out


def test_what_tasks_read_is_asked_for_and_nothing_else() -> None:
    assert set(icechunk_params()) == read_by(RUN_DEFAULTS, EXPIRATION, COLLECTION)


def test_for_many_repositories_the_same_is_asked_and_which_ones() -> None:
    assert asked_for(ALL_FORM) == read_by(WHICH) | set(FORM_OF_A_RUN)
    assert set(FORM_OF_A_RUN) == set(icechunk_params()) - {"storage", "check_only"}


def test_unless_somebody_says_more_a_run_is_a_dry_one_of_both_halves() -> None:
    params = icechunk_params()
    assert (params["dry_run"].value, params["collect"].value) == (True, True)
    assert icechunk_params(collect=False)["collect"].value is False


def test_a_store_that_starts_again_is_waited_for() -> None:
    assert sat_out(icechunk_params(), RUN_DEFAULTS) == timedelta(minutes=3)
