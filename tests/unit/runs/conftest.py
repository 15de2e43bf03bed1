import pytest


@pytest.fixture(scope="module", autouse=True)
def in_order() -> None:
    """Parallel calls are made in threads here."""
