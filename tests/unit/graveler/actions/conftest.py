"""A server of checks that hooks ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.http import Script, scripted_server


@pytest.fixture(scope="module")
def shared() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def checks(shared: Script) -> Script:
    """A server of checks; everything passes."""
    shared.asked.clear()
    shared.answer = lambda _: (200, b"fine")
    return shared
