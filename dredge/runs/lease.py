"""The lease of a repository: one object, changed only by conditional puts.

    absent, released or expired --acquire--> held by H with fencing number n+1, until T
    held by H --renew by H--> held until T'
    held by H --release by H--> released (the number remains, and never repeats)

The store's clock decides about expiry. Every new holder gets a larger fencing number, so a process with an older number
stops. A conditional put lets a single holder win.

A run whose tasks are cleared takes the lease again under a new number; later steps read the number from the stored
plan. The task that writes it there may be an older try, so `hand_over` replaces the plan by conditional puts, and only
by a higher number: a lower one would end every step with "the lease is lost".
"""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from msgspec import Struct

from dredge.errors import (
    DredgeError,
    FormatError,
    LeaseHeldError,
    NotFoundError,
    UnavailableError,
)
from dredge.runs.failures import closing_with
from dredge.runs.payload import from_json, to_json
from dredge.runs.tries import read_tagged, replace_tagged
from dredge.storage import ObjectReader, ObjectWriter

log = logging.getLogger("dredge")

LEASE = "lease.json"
_ROUNDS_MAX = 20
# Renewals within the lifetime of a lease.
_BEATS = 4


class LeaseGrant(Struct, frozen=True):
    """The lease as its holder has it. `fencing`: number of this grant; larger than that of every earlier grant."""

    holder: str
    fencing: int
    expires_at: datetime


class HeldLease(Struct, frozen=True):
    """The contents of the lease object; holder "" is a released lease."""

    holder: str
    fencing: int
    expires_at: datetime
    written_at: datetime
    etag: str


class Lease:
    """The lease object of a repository. `ttl`: lifetime of a grant without renewal."""

    def __init__(
        self, writer: ObjectWriter, ttl: timedelta, clock: Callable[[], datetime], key: str = LEASE
    ) -> None:
        self._writer = writer
        self._ttl = ttl
        self._clock = clock
        self._key = key

    def read(self) -> HeldLease | None:
        """Read the lease; None if it was never taken."""
        return read_lease(self._writer, self._key)

    def acquire(self, holder: str, read: Callable[[], HeldLease | None] | None = None) -> LeaseGrant:
        """Take the lease, also after its expiry. The same holder gets it under a new number: that fences off an earlier
        try of it. `read`: returns the lease, if it was read before. A lease that others change meanwhile is not taken.
        Raises LeaseHeldError: another holder has it."""
        now = self._clock()
        held = (read or self.read)()
        self._refuse_other(held, holder, now)
        if held is not None and held.holder not in ("", holder):
            log.warning("the lease of %s expired at %s and is taken over", held.holder, held.expires_at)
        grant = self._written(holder, 1 if held is None else held.fencing + 1, now, held)
        if grant is None:
            raise LeaseHeldError(
                f"{self._writer.uri}/{self._key}: another process changed the lease at the same moment. Nothing was"
                " changed. Try again when the other run has ended."
            )
        return grant

    def check_free(self, holder: str) -> None:
        """Check whether a holder could take the lease now. Raises LeaseHeldError if another holder has it."""
        self._refuse_other(self.read(), holder, self._clock())

    def renew(
        self,
        grant: LeaseGrant,
        take_back: bool = True,
        shorten: bool = False,
        allowed: Callable[[], object] = lambda: None,
    ) -> LeaseGrant:
        """Extend a grant, also after its expiry, unless the lease has another holder. `take_back`: also extend a
        released grant; for the start of a step, because its run continues. During a step, a released grant means that
        the run has ended. `shorten`: also replace a later expiry; only for the end of a wait for an answer, because an
        earlier try of a step does not know about that wait. `allowed`: called before the lease is written; raises if
        this try may not. Raises LeaseHeldError: another holder has it, or it was released; UnavailableError: other
        processes with this grant renew it all the time."""
        # The fencing number is this grant's own until another holder takes the lease.
        holders = ("", grant.holder) if take_back else (grant.holder,)
        # A step, its background thread and an earlier try of it share the grant. Any of them may renew it between the
        # read and the put of another, without harm.
        for _ in range(_ROUNDS_MAX):
            held = self.read()
            if held is None or held.fencing != grant.fencing or held.holder not in holders:
                raise _lost(self._writer, self._key, grant, held)
            allowed()
            least = held.expires_at if held.holder and not shorten else None
            renewed = self._written(grant.holder, grant.fencing, self._clock(), held, least)
            if renewed is not None:
                return renewed
        raise self._busy()

    def hold(self, grant: LeaseGrant, now: datetime) -> None:
        """Check a grant before a step starts, and extend it unless it was renewed recently.

        The fencing number decides whether the lease is lost. A wrong clock only delays the renewal until that of the
        step's background thread. `now`: this machine's time. Raises LeaseHeldError: another holder has it;
        UnavailableError: other processes with this grant renew it all the time."""
        held = self.read()
        stands = held is not None and (held.holder, held.fencing) == (grant.holder, grant.fencing)
        if not (held and stands and timedelta() <= now - held.written_at < self._ttl / _BEATS):
            self.renew(grant)

    def check(self, grant: LeaseGrant, now: datetime | None = None) -> None:
        """Check that a grant is valid, and not expired if the store's time `now` is given. Raises LeaseHeldError if it
        is not."""
        check_held(self._writer, self._key, grant, self.read(), now)

    def release(self, grant: LeaseGrant) -> None:
        """Release a grant; does nothing if the lease has another holder. Raises UnavailableError if other processes
        with this grant renew it all the time."""
        for _ in range(_ROUNDS_MAX):
            held = self.read()
            if held is None or (held.holder, held.fencing) != (grant.holder, grant.fencing):
                return
            if self._written("", held.fencing, self._clock(), held) is not None:
                return
        raise self._busy()

    @contextmanager
    def given_back(self, grant: LeaseGrant) -> Iterator[None]:
        """Release a grant at the end of a block. The error of the block is raised, not the error of the release: it
        decides about a retry. Raises UnavailableError if the block succeeded, and the release failed."""
        with closing_with(lambda: self.release(grant), "the release of the lease"):
            yield

    @contextmanager
    def kept(self, grant: LeaseGrant, wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Renew a grant in the background during a step. Failures are logged: the gate of the sweep stops deletions.
        `wanted`: called before each renewal; False ends them."""
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(self._ttl.total_seconds() / _BEATS):
                try:
                    if not wanted():
                        log.warning("the lease is not renewed any more: a later try has taken the step over")
                        return
                    self.renew(grant, take_back=False)
                except LeaseHeldError as error:
                    log.warning("the lease is not renewed any more: %s", error)
                    return
                except DredgeError as error:
                    log.warning("the lease could not be renewed: %s", error)

        thread = threading.Thread(target=beat, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _refuse_other(self, held: HeldLease | None, holder: str, now: datetime) -> None:
        if held is not None and held.holder not in ("", holder) and held.expires_at > now:
            # Runs of the command line hold it under their id (`runs.run.local_holder`).
            local = held.holder.startswith("run ")
            resume = (
                " A killed run of the command line continues with `resume`; `runs` lists it." if local else ""
            )
            raise LeaseHeldError(
                f"{self._writer.uri}/{self._key}: {held.holder} has the lease of this repository until"
                f" {held.expires_at:%Y-%m-%d %H:%M:%S} UTC (store's clock): it is running, or awaits approval. Nothing"
                " was changed. Wait for its end, or approve or reject it. If it crashed, start this run again after"
                f" that time.{resume}",
                held.holder,
            )

    def _written(
        self, holder: str, fencing: int, now: datetime, old: HeldLease | None, least: datetime | None = None
    ) -> LeaseGrant | None:
        """Replace the lease object, with an expiry not before `least`; None if another process changed it."""
        expires = now + self._ttl if least is None else max(now + self._ttl, least)
        data = json.dumps(
            {
                "holder": holder,
                "fencing": fencing,
                "written_at": now.isoformat(),
                "expires_at": expires.isoformat(),
                "id": uuid.uuid4().hex,  # unique, so that a lost response can be checked
            }
        ).encode()
        # A client repeats a request after a lost answer. The second one then finds the object of the first one.
        etag = None if old is None else old.etag
        if not replace_tagged(self._writer, self._key, data, etag):
            found = read_tagged(self._writer, self._key)
            if found is None or found[1] != data:
                return None
        return LeaseGrant(holder, fencing, expires)

    def _busy(self) -> UnavailableError:
        return UnavailableError(
            f"{self._writer.uri}/{self._key}: other processes changed it {_ROUNDS_MAX} times between read and write."
            " Nothing was changed. Check whether this run is also in progress elsewhere; try again when it is not."
        )


def check_held(
    reader: ObjectReader, key: str, grant: LeaseGrant, held: HeldLease | None, now: datetime | None = None
) -> None:
    """Check a grant by a lease that was read; see `Lease.check`."""
    if held is None or (held.holder, held.fencing) != (grant.holder, grant.fencing):
        raise _lost(reader, key, grant, held)
    if now is not None and now >= held.expires_at:
        raise LeaseHeldError(
            f"{reader.uri}/{key}: the lease of {grant.holder} expired at {held.expires_at:%H:%M:%S} UTC and"
            " was not renewed. Nothing more was deleted. Run the step again; it continues there."
        )


def read_lease_end(reader: ObjectReader, key: str) -> datetime | None:
    """Return until when a lease was in use: its release, or its expiry; None if it was never taken. Raises FormatError
    if it is damaged."""
    held = read_lease(reader, key)
    if held is None:
        return None
    return held.written_at if held.holder == "" else held.expires_at


def read_lease(reader: ObjectReader, key: str) -> HeldLease | None:
    """Read a lease; None if it was never taken. Raises FormatError if it is damaged."""
    tagged = read_tagged(reader, key)
    if tagged is None:
        return None
    etag, data = tagged
    try:
        value = json.loads(data)
        expires = datetime.fromisoformat(value["expires_at"])
        written = datetime.fromisoformat(value.get("written_at", value["expires_at"]))
        return HeldLease(value["holder"], value["fencing"], expires, written, etag)
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{reader.uri}/{key} is not a lease ({error}). Nothing was changed. Find out which program wrote it, then"
            " remove the object."
        ) from None


def _lost(reader: ObjectReader, key: str, grant: LeaseGrant, held: HeldLease | None) -> LeaseHeldError:
    now = f"{held.holder or 'no run'} (number {held.fencing})" if held is not None else "no run"
    return LeaseHeldError(
        f"{reader.uri}/{key}: the lease of {grant.holder} (number {grant.fencing}) is lost, it is held by"
        f" {now}. Nothing more was deleted. Start a new run when the other one has ended."
    )


LEASE_MEMBER = "lease"


def hand_over(writer: ObjectWriter, key: str, grant: LeaseGrant) -> bool:
    """Write a lease into a stored plan with an earlier lease of the same holder. Returns whether the plan has this
    lease now. A plan with another holder, or with a higher number, is not changed. Raises NotFoundError: there is no
    plan; FormatError: the plan is damaged; UnavailableError: other processes replace the plan all the time."""
    for _ in range(_ROUNDS_MAX):
        tagged = read_tagged(writer, key)
        if tagged is None:
            raise NotFoundError(f"{writer.uri}/{key} is missing")
        etag, data = tagged
        try:
            plan = json.loads(data)
            stored = from_json(LeaseGrant, plan[LEASE_MEMBER])
        except (FormatError, KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{writer.uri}/{key} is not a plan of a run: no lease in it ({error})"
            ) from None
        if stored.holder != grant.holder or stored.fencing > grant.fencing:
            return False
        if stored.fencing == grant.fencing:  # or written by an earlier round, whose answer was lost
            return True
        value = json.dumps({**plan, LEASE_MEMBER: to_json(grant)}, indent=1, sort_keys=True)
        if replace_tagged(writer, key, value.encode(), etag):
            return True
    raise UnavailableError(
        f"{writer.uri}/{key}: other processes changed it {_ROUNDS_MAX} times between read and write. Nothing was"
        " changed. Check whether this run is also in progress elsewhere; run the task again when it is not."
    )
