"""Storage classes and tiers: their price, their minimum time, and tiers not readable.

Names as in listings (`dredge.storage`): those of S3, and those of other stores with the store as prefix.

Sources: Amazon S3, Google Cloud Storage and Azure Blob Storage, pricing pages and "storage classes", "access tiers".
"""

from __future__ import annotations

STORAGE_CLASSES = {
    "STANDARD": 0.023,
    "STANDARD_IA": 0.0125,
    "ONEZONE_IA": 0.01,
    "GLACIER_IR": 0.004,
    "GLACIER": 0.0036,
    "DEEP_ARCHIVE": 0.00099,
    "GCS_STANDARD": 0.02,
    "GCS_NEARLINE": 0.01,
    "GCS_COLDLINE": 0.004,
    "GCS_ARCHIVE": 0.0012,
    "AZURE_HOT": 0.0184,
    "AZURE_COOL": 0.01,
    "AZURE_COLD": 0.0036,
    "AZURE_ARCHIVE": 0.00099,
}
"""US dollars for a GiB and month: list prices of the first tier in the providers' cheapest large regions."""

MINIMUM_DAYS = {
    "STANDARD_IA": 30,
    "ONEZONE_IA": 30,
    "GLACIER_IR": 90,
    "GLACIER": 90,
    "DEEP_ARCHIVE": 180,
    "GCS_NEARLINE": 30,
    "GCS_COLDLINE": 90,
    "GCS_ARCHIVE": 365,
    "AZURE_COOL": 30,
    "AZURE_COLD": 90,
    "AZURE_ARCHIVE": 180,
}
"""Days charged at least, also after an earlier deletion."""

HELD = ("AZURE_ARCHIVE",)
"""Objects in these tiers are not deleted: they cannot be read or copied, and their deletion is charged. A blob stays in
the tier until its rehydration is complete."""

_DAYS_OF_A_MONTH = 30


def early_fee(storage_class: str, byte_days: int) -> float:
    """Return the US dollars for an early deletion, by the list price.

    Args:
        byte_days: sum over the objects of bytes times remaining days of the minimum time.
    """
    return byte_days / 2**30 / _DAYS_OF_A_MONTH * STORAGE_CLASSES.get(storage_class, 0.0)
