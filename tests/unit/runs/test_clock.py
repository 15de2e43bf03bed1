"""Clocks that differ too much stop what hangs on ages, whichever of them is wrong."""

from __future__ import annotations

import pytest

from dredge.errors import RefusedError
from dredge.runs.clock import check_clocks


def test_clocks_may_differ_by_the_bound_and_by_no_more() -> None:
    for ahead in (-60, 0, 60):
        check_clocks(ahead, 60)
    with pytest.raises(RefusedError):
        check_clocks(60.001, 60)
    with pytest.raises(RefusedError):
        check_clocks(-60.001, 60)
