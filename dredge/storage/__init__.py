"""Object storage: local folders, S3, Google Cloud Storage and Azure Blob Storage.

Only this package uses the stores' clients. `open_reader`, `open_writer` and `open_deleter` are the entry; `model.py`
has their methods.
"""

from dredge.storage.model import (
    CHANGED,
    NOT_SENT,
    STORE_HOLD,
    DeleteOutcome,
    Level,
    ListedDeleter,
    ObjectDeleter,
    ObjectInfo,
    ObjectReader,
    ObjectStream,
    ObjectWriter,
    exists,
)
from dredge.storage.opening import (
    environment_of_child,
    open_copier,
    open_deleter,
    open_exact_version_deleter,
    open_marker_remover,
    open_old_version_deleter,
    open_reader,
    open_versions,
    open_writer,
)
from dredge.storage.options import StorageOptions
from dredge.storage.probe import store_clock
from dredge.storage.undo import NULL_VERSION, ObjectCopier, ObjectVersion, VersionReader

__all__ = [
    "CHANGED",
    "NOT_SENT",
    "NULL_VERSION",
    "STORE_HOLD",
    "DeleteOutcome",
    "Level",
    "ListedDeleter",
    "ObjectCopier",
    "ObjectDeleter",
    "ObjectInfo",
    "ObjectReader",
    "ObjectStream",
    "ObjectVersion",
    "ObjectWriter",
    "StorageOptions",
    "VersionReader",
    "environment_of_child",
    "exists",
    "open_copier",
    "open_deleter",
    "open_exact_version_deleter",
    "open_marker_remover",
    "open_old_version_deleter",
    "open_reader",
    "open_versions",
    "open_writer",
    "store_clock",
]
