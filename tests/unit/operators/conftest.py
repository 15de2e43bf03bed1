from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk._shared.secrets_masker import redact, reset_secrets_masker

from tests.support.airflow import FILTERS

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.dags)
            for line in FILTERS:
                item.add_marker(pytest.mark.filterwarnings(line))


@pytest.fixture
def is_masked() -> Callable[[str], bool]:
    """Whether Airflow hides a text in its logs; it begins with none."""
    reset_secrets_masker()
    return lambda text: redact(text) == "***"
