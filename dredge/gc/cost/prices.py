"""What storage costs a month, in US dollars for each GiB; without requests and transfer."""

from __future__ import annotations


def monthly(size_bytes: int, price: float) -> float:
    """Give the price of some bytes for a month.

    Args:
        size_bytes: how many.
        price: of a GiB for a month.
    """
    return size_bytes / 2**30 * price
