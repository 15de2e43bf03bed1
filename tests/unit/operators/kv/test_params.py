"""The form of the trash cleaner."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk.exceptions import ParamValidationError

from airflow_dredge.operators.kv.params import RESTORE_DEFAULTS, RESTORE_FORM, TRASH_DEFAULTS, trash_params
from tests.support.forms import asked_for, read_by, sat_out


def test_params_refuse_a_short_grace_and_unknown_kinds() -> None:
    params = trash_params(state_uri="file:///x")
    with pytest.raises(ParamValidationError):
        params["grace_hours"].resolve(23)
    with pytest.raises(ParamValidationError):
        params["kinds"].resolve(["commits"])
    with pytest.raises(TypeError):
        trash_params(grace=3)


def test_what_tasks_read_is_asked_for_and_nothing_else() -> None:
    assert set(trash_params()) == read_by(TRASH_DEFAULTS)
    assert asked_for(RESTORE_FORM) == read_by(RESTORE_DEFAULTS)
    assert trash_params()["dry_run"].value is True


def test_a_database_that_starts_again_is_waited_for() -> None:
    for tasks in (TRASH_DEFAULTS, RESTORE_DEFAULTS):
        assert sat_out(trash_params(state_uri="file:///x"), tasks) == timedelta(minutes=3)
