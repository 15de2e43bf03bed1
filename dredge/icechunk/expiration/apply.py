"""Expire a repository by its spec: in place on spec 1, through the library on spec 2."""

from __future__ import annotations

import logging
from functools import cache

from dredge.errors import ConfigError, DredgeError
from dredge.icechunk.collection.witness.record import note_released
from dredge.icechunk.expiration.by_library import expire_by_library
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.in_place import Applied, expire_in_place
from dredge.icechunk.expiration.kept_refs import kept_refs
from dredge.icechunk.expiration.stored import record_applied
from dredge.icechunk.history import History
from dredge.icechunk.library import delete_ref, expire_with_library, open_library
from dredge.icechunk.maintenance import open_state, right_to_work
from dredge.icechunk.repository import spec_version
from dredge.runs.clock import utc_now
from dredge.runs.lease import LeaseGrant
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.xid import new_xid

log = logging.getLogger("dredge")


def expire(
    uri: str,
    expiration: Expiration,
    *,
    approved_digest: str | None = None,
    lease: LeaseGrant | None = None,
    options: StorageOptions | None = None,
) -> Applied:
    """Plan and apply an expiration; no object is deleted. One maintenance run works on a repository at a time.

    Args:
        uri: the repository.
        expiration: the settings.
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
    version, rule = spec_version(reader), expiration.rule

    def kept(history: History) -> frozenset[str]:
        return kept_refs(reader, history, expiration, utc_now())

    if version == 2 and rule not in (None, "spec_v2"):
        raise ConfigError(f"{uri}: rule {rule} can be planned but not applied on spec 2; choose spec_v2")
    with right_to_work(uri, f"expiration {new_xid(utc_now())}", lease, options):
        if version == 1:
            library = cache(lambda: open_library(uri, options))
            applied = expire_in_place(
                open_writer(uri, options),
                expiration.instant,
                rule=rule or "spec_v1",
                delete_expired_branches=expiration.delete_expired_branches,
                delete_expired_tags=expiration.delete_expired_tags,
                kept_refs=kept,
                approved_digest=approved_digest,
                before_refs=library,
                delete_ref=lambda ref: delete_ref(library(), ref),
            )
        else:
            repository = open_library(uri, options)
            applied = expire_by_library(
                reader,
                lambda older_than, branches, tags: expire_with_library(
                    repository, older_than, delete_branches=branches, delete_tags=tags
                ),
                expiration.instant,
                delete_expired_branches=expiration.delete_expired_branches,
                delete_expired_tags=expiration.delete_expired_tags,
                approved_digest=approved_digest,
                kept_refs=kept,
                # The library deletes all expired refs or none, so where some are kept they are deleted by name.
                delete_ref=(lambda ref: delete_ref(repository, ref))
                if expiration.keep_refs or expiration.keep_refs_younger_hours
                else None,
            )
        _note(uri, applied, options)
        return record_applied(uri, expiration, applied, utc_now(), options)


def _note(uri: str, applied: Applied, options: StorageOptions | None) -> None:
    """Note for the next collection what was released: without the note it takes it for lost, and keeps it for now."""
    before, after = applied.plan.before, applied.plan.after
    reached = [
        {*found.snapshots} if found.spec_version == 2 else found.reachable() for found in (before, after)
    ]
    try:
        note_released(open_state(uri, options), reached[0] - reached[1])
    except DredgeError as error:
        log.warning("%s: what was released could not be noted, so it is kept longer: %s", uri, error)
