"""What an account keeps of what is deleted.

With soft delete, which new accounts have, the bytes stay and are paid for until its days are over, and *Undelete Blob*
or the portal brings them back; no call of Dredge's can end that time. Whether an account keeps *versions* is told by
the management API only, and a deletion leaves no marker whose removal would bring a version back. So this is no way to
take deletions back here: the quarantine is.

Source: Azure's documentation, "Soft delete for blobs", "Blob versioning"; REST API, Get Blob Service Properties.
"""

from __future__ import annotations

from typing import Any

from dredge.storage.azure.clients import service_client
from dredge.storage.location import Location
from dredge.storage.options import StorageOptions
from dredge.storage.undo import NoVersions


class AzureVersions(NoVersions):
    """See `dredge.storage.undo.VersionReader` and `KeepsDeletedBytes`."""

    def __init__(self, location: Location, options: StorageOptions) -> None:
        self._location = location
        self._options = options

    def kept_seconds(self) -> int | None:
        """For how long soft delete keeps the bytes; None when the credentials may not ask."""
        from azure.core.exceptions import AzureError

        try:
            with service_client(self._options, self._location.bucket) as service:
                found: Any = service.get_service_properties()["delete_retention_policy"]
        except AzureError:
            return None
        return int(found.days) * 86_400 if found.enabled and found.days else 0
