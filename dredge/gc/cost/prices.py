"""What storage costs a month, in US dollars for each GiB; without requests, transfer and minimum durations."""

from __future__ import annotations

STORAGE_CLASSES = {
    "STANDARD": 0.023,
    "STANDARD_IA": 0.0125,
    "ONEZONE_IA": 0.01,
    "GLACIER_IR": 0.004,
    "GCS_STANDARD": 0.02,
    "GCS_NEARLINE": 0.01,
    "GCS_COLDLINE": 0.004,
    "GCS_ARCHIVE": 0.0012,
    "AZURE_HOT": 0.0184,
    "AZURE_COOL": 0.01,
    "AZURE_COLD": 0.0036,
    "AZURE_ARCHIVE": 0.00099,
}
"""List prices of the first tier in the providers' cheapest large regions; give your own with a price."""


def monthly(size_bytes: int, price: float) -> float:
    """Give the price of some bytes for a month.

    Args:
        size_bytes: how many.
        price: of a GiB for a month.
    """
    return size_bytes / 2**30 * price
