"""Dredge's folder in an Icechunk repository, and the lease: one maintenance run at a time.

    <repository>/_dredge/lease.json           lease of expirations and collections
    <repository>/_dredge/pending/             pending list: garbage that waits for another run
    <repository>/_dredge/index/               manifest index: chunks of manifests, read once
    <repository>/_dredge/state/               state for the next collection: a pointer, and versions
    <repository>/_dredge/counted/             number of live manifests by chunk
    <repository>/_dredge/expirations/<id>/    plans of expirations, as data, text and page
    <repository>/_dredge/runs/<run id>/       run folders of collections, without another run root

Icechunk ignores the folder.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta

from dredge.runs.lease import Lease, LeaseGrant
from dredge.storage import ObjectWriter, StorageOptions, open_writer, store_clock

STATE = "_dredge"
RUNS = f"{STATE}/runs"
EXPIRATIONS = "expirations"
LEASE_SECONDS = 3600.0


def open_state(uri: str, options: StorageOptions | None = None) -> ObjectWriter:
    """Open Dredge's folder in a repository."""
    return open_writer(f"{uri.rstrip('/')}/{STATE}", options)


def make_lease(
    state: ObjectWriter, seconds: float = LEASE_SECONDS, now: Callable[[], datetime] | None = None
) -> Lease:
    """Return the lease of a repository."""
    return Lease(state, timedelta(seconds=seconds), now or (lambda: store_clock(state, "")))


@contextmanager
def right_to_work(
    uri: str, holder: str, grant: LeaseGrant | None = None, options: StorageOptions | None = None
) -> Iterator[LeaseGrant]:
    """Hold and renew the lease during the block. Raises LeaseHeldError if another run works on the repository."""
    lease = make_lease(open_state(uri, options))
    held = lease.acquire(holder) if grant is None else lease.renew(grant)
    with nullcontext() if grant is not None else lease.given_back(held), lease.kept(held):
        yield held
