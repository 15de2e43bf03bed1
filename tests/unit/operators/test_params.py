"""A Param has the title, the text, the default and the bounds of its setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from airflow_dredge.operators.params import params_of
from dredge.settings import setting, settings_of


@dataclass(frozen=True, kw_only=True)
class Config:
    name: str = setting("Name", "What it is called.")
    days: float | None = setting("Days", "How long.", default=30.0, minimum=7)
    policy: str | None = setting("Policy", "In words.", default=None, name="in_words", multiline=True)


FORM = settings_of(Config)


def test_a_param_is_made_from_its_field() -> None:
    params = params_of(FORM, {"name": "lake"})
    assert list(params) == ["name", "days", "in_words"]
    days = params["days"]
    assert (days.value, days.schema["type"], days.schema["minimum"]) == (30.0, ["null", "number"], 7)
    assert (days.schema["title"], days.schema["description_md"]) == ("Days", "How long.")
    assert params["name"].value == "lake"
    assert params["in_words"].schema["format"] == "multiline"
    assert params["in_words"].value is None


@pytest.mark.parametrize("value", [6, "x"])
def test_the_form_refuses_what_the_field_does(value: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        params_of(FORM, {})["days"].resolve(value)
