"""The forms of the lakeFS DAGs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk.exceptions import ParamValidationError

from airflow_dredge.operators.lakefs.params import (
    ALL_FORM,
    CONFIG,
    FORM_OF_A_RUN,
    METADATA,
    METADATA_FORM,
    RUN_DEFAULTS,
    WHICH,
    gc_params,
)
from airflow_dredge.operators.params import templates
from tests.support.forms import asked_for, read_by, sat_out


def test_what_tasks_read_is_asked_for_and_nothing_else() -> None:
    assert set(gc_params()) == read_by(RUN_DEFAULTS, CONFIG)
    assert gc_params()["dry_run"].value is True


def test_for_many_repositories_the_same_is_asked_and_which_ones() -> None:
    assert asked_for(ALL_FORM) == read_by(WHICH) | (set(gc_params()) - {"repository", "check_only"})
    assert set(FORM_OF_A_RUN) == set(gc_params()) - {"repository", "check_only"}


def test_the_metadata_dag_asks_for_its_settings_and_for_the_key_value_store() -> None:
    assert asked_for(METADATA_FORM) == read_by(templates(METADATA)) | {"kv_conn_id"}


def test_spark_may_be_used_always_but_not_more_often() -> None:
    rows = gc_params()["spark_rows_min"]
    assert rows.resolve(0) == 0
    with pytest.raises(ParamValidationError):
        rows.resolve(-1)


def test_a_server_that_starts_again_is_waited_for() -> None:
    assert sat_out(gc_params(), RUN_DEFAULTS) == timedelta(minutes=3)
