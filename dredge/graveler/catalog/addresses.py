"""Calls for clients that write to the object store themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dredge.graveler.catalog.core import CatalogCore
from dredge.graveler.catalog.results import ObjectStats


class AddressCalls(CatalogCore):
    """Hand an address out, and link what was written there."""

    def get_physical_address(self, repository: str, branch: str, path: str) -> str:
        """Hand out a signed address for one path. The branch is not looked at.

        Returns:
            Full URI `<namespace>/data/<slice>/<xid>,<signature>`; the signature is part of the object's key.
        """
        raise NotImplementedError

    def link_physical_address(
        self,
        repository: str,
        branch: str,
        path: str,
        *,
        physical_address: str,
        checksum: str,
        size_bytes: int,
        mtime: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        content_type: str = "",
        force: bool = False,
    ) -> ObjectStats:
        """Stage an entry for bytes written to a handed-out address, at most 24 h after it was handed out.

        Whether the bytes are there is not checked, as on a real server.

        Raises:
            LinkAddressError: 400, not signed, not for this path, or too old.
        """
        raise NotImplementedError
