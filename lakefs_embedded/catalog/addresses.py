"""API calls for clients writing to the object store themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dredge.lakefs.files.addresses import AddressType
from lakefs_embedded.catalog.entries import DEFAULT_CONTENT_TYPE, address_to_keep, entry_time, object_stats
from lakefs_embedded.catalog.handed_out import HandedOut
from lakefs_embedded.catalog.model import Clock, Refs
from lakefs_embedded.catalog.results import ObjectStats, SignedUrl
from lakefs_embedded.catalog.settings import Settings
from lakefs_embedded.catalog.signed_urls import SignedUrls
from lakefs_embedded.catalog.signing import sign_address, verify_address
from lakefs_embedded.catalog.slices import PathProvider
from lakefs_embedded.catalog.staged_writes import StagedWrites
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.refs.records import check_path


class AddressService:
    """Hands addresses out, and links the objects written there."""

    def __init__(
        self,
        refs: Refs,
        writes: StagedWrites,
        paths: PathProvider,
        handed_out: HandedOut,
        signed_urls: SignedUrls,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._refs = refs
        self._writes = writes
        self._paths = paths
        self._handed_out = handed_out
        self._signed_urls = signed_urls
        self._clock = clock
        self._settings = settings

    def get_physical_address(self, repository: str, branch: str, path: str) -> str:
        """Hand out a signed address for one path, as a full URI. The branch need not exist."""
        found = self._refs.repositories.writable(repository)
        check_path(path)
        signed = sign_address(self._settings.signing_key, repository, branch, path, self._paths.new_address())
        if self._settings.profile == "design":
            self._handed_out.track(found, signed)
        return f"{found.storage_namespace.rstrip('/')}/{signed}"

    def presign_write(self, repository: str, physical_address: str) -> SignedUrl:
        """Sign a URL to write to a handed-out address."""
        found = self._refs.repositories.writable(repository)
        key, _ = address_to_keep(found, physical_address)
        return self._signed_urls.write_key(found, key)

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
        """Stage an entry for an object at a handed-out address, at most 24 h old, or raise LinkAddressError.

        As on a real server the object itself is not checked. In profile `design` an address is linked once: it is used
        up before the entry is staged, so a failure in between leaves an unreferenced object.
        """
        found = self._refs.repositories.writable(repository, force)
        raw = check_path(path)
        self._refs.protection.require_writable(found, branch)
        address, address_type = address_to_keep(found, physical_address)
        now = self._clock()
        single_use = self._settings.profile == "design"
        if address_type == AddressType.RELATIVE or single_use:
            verify_address(
                self._settings.signing_key,
                repository,
                branch,
                path,
                address,
                now=now,
                expiry=self._settings.link_expiry,
            )
        if single_use:
            self._refs.branches.current(found, branch)  # 404 while the address can still be linked elsewhere
            self._handed_out.consume(found, address)
        entry = Entry(
            address=address,
            address_type=address_type,
            size=size_bytes,
            etag=checksum,
            last_modified=entry_time(now, mtime),
            metadata=dict(metadata or {}),
            content_type=content_type or DEFAULT_CONTENT_TYPE,
        )
        self._writes.stage(found, branch, raw, entry)
        return object_stats(found, path, entry)
