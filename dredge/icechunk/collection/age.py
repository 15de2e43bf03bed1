"""Old enough to be deleted: strictly before the cutoff, by the store's clock.

A store that rounds down to whole seconds may have written an object up to a second later than it says. So a time of
whole seconds counts as one second later.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_ROUNDED = timedelta(seconds=1)
_ROUNDED_MICROS = 1_000_000


def is_old(last_modified: datetime, cutoff: datetime) -> bool:
    """Tell whether an object was written before the cutoff.

    Args:
        last_modified: aware, by the store's clock.
        cutoff: aware.
    """
    return (last_modified if last_modified.microsecond else last_modified + _ROUNDED) < cutoff


def is_old_column(times: pa.Array, cutoff: datetime) -> npt.NDArray[np.bool_]:
    """Tell for each of many objects whether it was written before the cutoff; see `is_old`.

    Args:
        times: timestamps in microseconds, UTC.
        cutoff: aware.
    """
    micros = times.cast(pa.int64()).to_numpy()
    micros = micros + np.where(micros % _ROUNDED_MICROS == 0, _ROUNDED_MICROS, 0)
    limit = pa.scalar(cutoff, pa.timestamp("us", tz="UTC")).cast(pa.int64()).as_py()
    found: npt.NDArray[np.bool_] = micros < limit
    return found
