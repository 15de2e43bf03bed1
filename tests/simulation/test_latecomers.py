"""Garbage allowed by the oracle after an optimized run."""

from datetime import UTC, datetime, timedelta

import pytest

from dredge.xid import new_descending_xid, new_xid
from tests.simulation.gc.latecomers import Latecomers

OPENED = datetime(2026, 11, 1, tzinfo=UTC)
ADDRESS = f"data/{new_descending_xid(OPENED)}/{new_xid(OPENED)}"
MARGIN = timedelta(hours=51)


@pytest.fixture
def latecomers() -> Latecomers:
    return Latecomers(MARGIN)


@pytest.mark.parametrize("role", ["client", "server"])
def test_others_come_late_once_their_slice_is_older_than_the_margin(
    latecomers: Latecomers, role: str
) -> None:
    latecomers.on_put(ADDRESS, role, OPENED + MARGIN)
    assert not latecomers.addresses
    latecomers.on_put(ADDRESS, role, OPENED + MARGIN + timedelta(seconds=1))
    assert latecomers.addresses == {ADDRESS}


def test_what_a_run_brings_back_is_looked_for_however_late_that_is(latecomers: Latecomers) -> None:
    latecomers.on_put(ADDRESS, "client", OPENED + 2 * MARGIN)
    latecomers.on_put(ADDRESS, "step", OPENED + 3 * MARGIN)
    assert not latecomers.addresses
