"""Expire a repository by its spec: in place on spec 1, through the library on spec 2."""

from __future__ import annotations

from datetime import datetime
from functools import cache

from dredge.errors import ConfigError
from dredge.graveler.xid import new_xid
from dredge.icechunk.expiration.by_library import expire_by_library
from dredge.icechunk.expiration.in_place import Applied, expire_in_place
from dredge.icechunk.library import delete_ref, expire_with_library, open_library
from dredge.icechunk.maintenance import right_to_work
from dredge.icechunk.repository import spec_version
from dredge.runs.clock import utc_now
from dredge.runs.lease import LeaseGrant
from dredge.storage import StorageOptions, open_reader, open_writer


def expire(
    uri: str,
    threshold: datetime,
    *,
    rule: str | None = None,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    approved_digest: str | None = None,
    lease: LeaseGrant | None = None,
    options: StorageOptions | None = None,
) -> Applied:
    """Plan and apply an expiration; no object is deleted. One maintenance run works on a repository at a time.

    Args:
        uri: the repository.
        threshold: aware; snapshots strictly older are expired.
        rule: "document" or "spec_v1" on spec 1, "spec_v2" on spec 2; None takes the library's rule of the
            spec.
        delete_expired_branches: delete branches whose tip is expired; never main.
        delete_expired_tags: delete tags whose tip is expired; their names can never be used again.
        approved_digest: apply the plan with this digest and no other.
        lease: the right to work on the repository, when it was taken before; None takes it meanwhile.
        options: None reads this process's environment.

    Raises:
        ConfigError: a rule that cannot be applied to this spec, or a naive threshold.
        LeaseHeldError: another run works on the repository.
        RefusedError: see `expire_in_place` and `expire_by_library`.
        FormatError: a file that matters is missing or damaged.
    """
    reader = open_reader(uri, options)
    version = spec_version(reader)
    if version == 2 and rule not in (None, "spec_v2"):
        raise ConfigError(f"{uri}: rule {rule} can be planned but not applied on spec 2; choose spec_v2")
    with right_to_work(uri, f"expiration {new_xid(utc_now())}", lease, options):
        if version == 1:
            library = cache(lambda: open_library(uri, options))
            return expire_in_place(
                open_writer(uri, options),
                threshold,
                rule=rule or "spec_v1",
                delete_expired_branches=delete_expired_branches,
                delete_expired_tags=delete_expired_tags,
                approved_digest=approved_digest,
                before_refs=library,
                delete_ref=lambda ref: delete_ref(library(), ref),
            )
        repository = open_library(uri, options)
        return expire_by_library(
            reader,
            lambda older_than, branches, tags: expire_with_library(
                repository, older_than, delete_branches=branches, delete_tags=tags
            ),
            threshold,
            delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags,
            approved_digest=approved_digest,
        )
