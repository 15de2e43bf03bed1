"""What all unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.in_order import working_in_order


@pytest.fixture(scope="module", autouse=True)
def in_order(request: pytest.FixtureRequest) -> Iterator[None]:
    """Parallel calls are made in order, but in modules with `pytestmark = pytest.mark.threads`."""
    if request.node.get_closest_marker("threads"):
        yield
        return
    with working_in_order():
        yield
