"""Storage classes and tiers: their price, those with a minimum time, and tiers not readable.

Names as in listings (`dredge.storage`): those of S3, and those of other stores with the store as prefix.

Sources: Amazon S3, Google Cloud Storage and Azure Blob Storage, pricing pages and "storage classes", "access tiers".
"""

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

CHARGED_EARLY = (
    *("STANDARD_IA", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"),
    *("GCS_NEARLINE", "GCS_COLDLINE", "GCS_ARCHIVE", "AZURE_COOL", "AZURE_COLD", "AZURE_ARCHIVE"),
)
"""Classes with a minimum time: an earlier deletion is charged."""

HELD = ("AZURE_ARCHIVE",)
"""Objects in these tiers are not deleted: they cannot be read or copied, and their deletion is charged. A blob stays in
the tier until its rehydration is complete."""
