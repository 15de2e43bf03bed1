"""Ages of objects."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dredge.icechunk.repository import is_old, is_old_column

CUTOFF = datetime(2026, 5, 1, 12, 0, 10, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("second", "micro", "old"),
    [
        (9, 0, True),
        (10, 400_000, True),
        (10, 500_000, False),
        (10, 600_000, False),
        # A store that counts in whole seconds may have written it at 10.9.
        (10, 0, False),
    ],
)
def test_whole_seconds_count_as_one_second_later(second: int, micro: int, old: bool) -> None:
    time = CUTOFF.replace(second=second, microsecond=micro)
    assert is_old(time, CUTOFF) is old
    column = pa.array([time], pa.timestamp("us", tz="UTC"))
    assert is_old_column(column, CUTOFF).tolist() == [old]
