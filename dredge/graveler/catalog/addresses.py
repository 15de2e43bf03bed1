"""Calls for clients that write to the object store themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from dredge.graveler.catalog.changes import ChangeCalls
from dredge.graveler.catalog.copies import Copies
from dredge.graveler.catalog.entries import address_to_keep, entry_time, object_stats
from dredge.graveler.catalog.handed_out import HandedOut
from dredge.graveler.catalog.results import ExpiredRecords, ObjectStats
from dredge.graveler.catalog.signing import sign_address, verify_address
from dredge.graveler.committed import AddressType, Entry
from dredge.graveler.refs.names import check_path


class AddressCalls(ChangeCalls):
    """Hand an address out, link what was written there; forget what was tracked long enough."""

    def get_physical_address(self, repository: str, branch: str, path: str) -> str:
        """Hand out a signed address for one path. The branch is not looked at.

        Returns:
            Full URI `<namespace>/data/<slice>/<xid>,<signature>`; the signature is part of the object's key.
        """
        found = self._writable(repository)
        check_path(path)
        signed = sign_address(self.settings.signing_key, repository, branch, path, self._paths.new_address())
        if self.settings.profile == "design":
            HandedOut(self._kv).track(found, signed)
        return f"{found.storage_namespace.rstrip('/')}/{signed}"

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

        Whether the bytes are there is not checked, as on a real server. In profile `design` an address may be
        linked once, and only one that was handed out: it is used up before the entry is staged, so a call that
        fails between leaves an object that nothing references.

        Raises:
            LinkAddressError: 400, not signed, not for this path, too old, or (`design`) linked already.
        """
        found = self._writable(repository, force)
        raw = check_path(path)
        self._protection.require_writable(found, branch)
        address, address_type = address_to_keep(found, physical_address)
        now = self.clock()
        single_use = self.settings.profile == "design"
        if address_type == AddressType.RELATIVE or single_use:
            verify_address(
                self.settings.signing_key,
                repository,
                branch,
                path,
                address,
                now=now,
                expiry=self.settings.link_expiry,
            )
        if single_use:
            self._branches.current(found, branch)  # 404 while the address can still be linked elsewhere
            HandedOut(self._kv).consume(found, address)
        entry = Entry(
            address=address,
            address_type=address_type,
            size=size_bytes,
            etag=checksum,
            last_modified=entry_time(now, mtime),
            metadata=dict(metadata or {}),
            content_type=content_type,
        )
        self._stage(found, branch, raw, entry)
        return object_stats(found, path, entry)

    def expire_tracked(self) -> ExpiredRecords:
        """Remove what is tracked for a limited time in all repositories: addresses that cannot be linked any
        more, and copies older than any prepare run. For a periodic call; several servers may do it at once.
        """
        now = self.clock()
        addresses = copies = 0
        for found in self._repositories.listed():
            addresses += HandedOut(self._kv).expire(found, now - self.settings.link_expiry)
            copies += Copies(self._kv).expire(found, now - self.settings.copy_expiry)
        return ExpiredRecords(addresses, copies)
