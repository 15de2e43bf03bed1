"""What Dredge keeps inside an Icechunk repository, and the right to work on it: one maintenance run at a time.

    <repository>/_dredge/lease.json           the right; expirations and collections share it
    <repository>/_dredge/pending/             what runs found, and what waits for another run
    <repository>/_dredge/index/               what manifests name, read once for ever
    <repository>/_dredge/state/               what the next collection builds on: a pointer, and versions of the state
    <repository>/_dredge/counted/             how many live manifests name each chunk
    <repository>/_dredge/expirations/<id>/    plans of expirations, as data, text and page
    <repository>/_dredge/runs/<run id>/       folders of collections, unless another root was named

Icechunk ignores the folder.
"""

from __future__ import annotations

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
    """Open the folder of a repository that is Dredge's."""
    return open_writer(f"{uri.rstrip('/')}/{STATE}", options)


def make_lease(
    state: ObjectWriter, seconds: float = LEASE_SECONDS, now: Callable[[], datetime] | None = None
) -> Lease:
    """Give a repository's lease."""
    return Lease(state, timedelta(seconds=seconds), now or (lambda: store_clock(state, "")))


@contextmanager
def right_to_work(
    uri: str, holder: str, grant: LeaseGrant | None = None, options: StorageOptions | None = None
) -> Iterator[LeaseGrant]:
    """Hold the lease while work goes on, and renew it meanwhile.

    Raises:
        LeaseHeldError: another run works on the repository.
    """
    lease = make_lease(open_state(uri, options))
    held = lease.acquire(holder) if grant is None else lease.renew(grant)
    with nullcontext() if grant is not None else lease.given_back(held), lease.kept(held):
        yield held
