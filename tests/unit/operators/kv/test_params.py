"""The form of the trash cleaner."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import ParamValidationError

from airflow_dredge.operators.kv.params import trash_params


def test_params_refuse_a_short_grace_and_unknown_kinds() -> None:
    params = trash_params(state_uri="file:///x")
    with pytest.raises(ParamValidationError):
        params["grace_hours"].resolve(23)
    with pytest.raises(ParamValidationError):
        params["kinds"].resolve(["commits"])
    with pytest.raises(TypeError):
        trash_params(grace=3)
