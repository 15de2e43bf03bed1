"""Columns of listings. Apart from `model`, which is loaded by commands and DAG files that list nothing."""

import pyarrow as pa

LISTING_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string()),
    ]
)
"""Columns of every listing batch; `key` is relative to the reader's URI, `etag` has no quotes."""
STORAGE_CLASS = "storage_class"
"""An additional column, if the store has it: class or tier of each object, by a name unique to the store
(`GLACIER`, `GCS_COLDLINE`, `AZURE_ARCHIVE`); null for none, and for the plain one (STANDARD, Hot)."""
LISTING_SCHEMA_WITH_CLASS = LISTING_SCHEMA.append(pa.field(STORAGE_CLASS, pa.string()))
