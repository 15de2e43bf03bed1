from pathlib import Path

import pytest

from tests.support.airflow import FILTERS

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.dags)
            for line in FILTERS:
                item.add_marker(pytest.mark.filterwarnings(line))
