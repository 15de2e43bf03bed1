"""Params of settings, the forms of all DAGs, and the settings page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError

from airflow_dredge.operators.icechunk import params as icechunk
from airflow_dredge.operators.kv import params as kv
from airflow_dredge.operators.lakefs import params as lakefs
from airflow_dredge.operators.params import make_params, templates
from airflow_dredge.operators.settings_page import PAGE, page
from dredge.settings import Setting, setting, settings_of
from tests.support.forms import asked_for, read_by, sat_out


@dataclass(frozen=True, kw_only=True)
class Config:
    name: str = setting("Name", "What it is called.")
    days: float | None = setting("Days", "How long.", default=30.0, minimum=7)
    policy: str | None = setting("Policy", "In words.", default=None, name="in_words", multiline=True)


FORM = settings_of(Config)
LAKEFS, ICECHUNK = lakefs.gc_params(), icechunk.icechunk_params()
TRASH = kv.trash_params(state_uri="file:///x")


def test_a_param_is_made_from_its_field() -> None:
    params = make_params(FORM, {"name": "lake"})
    assert list(params) == ["name", "days", "in_words"]
    days = params["days"]
    assert (days.value, days.schema["type"], days.schema["minimum"]) == (30.0, ["null", "number"], 7)
    assert (days.schema["title"], days.schema["description_md"]) == ("Days", "How long.")
    assert params["name"].value == "lake"
    assert (params["in_words"].schema["format"], params["in_words"].value) == ("multiline", None)


@pytest.mark.parametrize(
    ("params", "name", "value"),
    [
        (make_params(FORM, {}), "days", 6),
        (make_params(FORM, {}), "days", "x"),
        (LAKEFS, "spark_rows_min", -1),
        (TRASH, "grace_hours", 23),
        (TRASH, "kinds", ["commits"]),
    ],
)
def test_the_form_refuses_what_the_field_does(params: dict[str, Param], name: str, value: Any) -> None:
    with pytest.raises(ParamValidationError):
        params[name].resolve(value)


def test_a_default_without_a_param_is_an_error() -> None:
    with pytest.raises(TypeError):
        kv.trash_params(grace=3)


@pytest.mark.parametrize(
    ("form", "arguments", "more"),
    [
        (lakefs.FORM, [lakefs.RUN_DEFAULTS, lakefs.CONFIG], set()),
        (lakefs.METADATA_FORM, [templates(lakefs.METADATA)], {"kv_conn_id"}),
        (lakefs.ALL_FORM, [lakefs.WHICH], set(LAKEFS) - {"repository", "check_only"}),
        (icechunk.FORM, [icechunk.RUN_DEFAULTS, icechunk.EXPIRATION, icechunk.COLLECTION], set()),
        (icechunk.ALL_FORM, [icechunk.WHICH], set(ICECHUNK) - {"storage", "check_only"}),
        (kv.FORM, [kv.TRASH_DEFAULTS], set()),
        (kv.RESTORE_FORM, [kv.RESTORE_DEFAULTS], set()),
    ],
)
def test_a_form_has_the_params_that_tasks_read_and_no_others(
    form: Sequence[Setting], arguments: Sequence[Mapping[str, Any]], more: set[str]
) -> None:
    assert asked_for(form) == read_by(*arguments) | more


@pytest.mark.parametrize("params", [LAKEFS, ICECHUNK, TRASH], ids=["lakefs", "icechunk", "kv"])
def test_a_run_is_a_dry_run_by_default(params: dict[str, Param]) -> None:
    assert params["dry_run"].value is True


@pytest.mark.parametrize(
    ("params", "tasks"),
    [
        (LAKEFS, lakefs.RUN_DEFAULTS),
        (ICECHUNK, icechunk.RUN_DEFAULTS),
        (TRASH, kv.TRASH_DEFAULTS),
        (TRASH, kv.RESTORE_DEFAULTS),
    ],
)
def test_a_service_that_restarts_is_waited_for(params: dict[str, Param], tasks: Mapping[str, Any]) -> None:
    assert sat_out(params, tasks) == timedelta(minutes=3)


def test_the_settings_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/settings.md is old: run ./run docs"
