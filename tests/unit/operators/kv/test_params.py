"""The form of the trash cleaner."""

from __future__ import annotations

import pytest

from airflow_dredge.operators.kv.params import trash_params
from tests.support.airflow import FILTERS

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


def test_params_refuse_a_short_grace_and_unknown_kinds() -> None:
    params = trash_params(state_uri="file:///x")
    with pytest.raises(Exception, match="minimum"):
        params["grace_hours"].resolve(23)
    with pytest.raises(Exception, match="is not one of"):
        params["kinds"].resolve(["commits"])
    with pytest.raises(TypeError, match="no such Param: grace"):
        trash_params(grace=3)
