"""The exclusive right to work on a repository: one object, changed only by conditional puts.

    absent, released or expired --acquire--> held by H with fencing number n+1, until T
    held by H --renew by H--> held until T'
    held by H --release by H--> released (the number stays, so that it never repeats)

Expiry is counted by the store's clock. The fencing number grows with every new holder: work that carries an
old one knows that it has been overtaken, and stops. Two holders cannot both win a conditional put.

Clearing the tasks of a run in the scheduler takes the lease again under a new number, and later steps read the number
from the stored plan. The task that brings it may itself be an older try, so `hand_over` replaces the plan by
conditional puts only, and only by a higher number: a lower one would end every step with "the lease is lost".
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.errors import (
    DredgeError,
    FormatError,
    LeaseHeldError,
    NotFoundError,
    UnavailableError,
)
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.payload import from_json, to_json
from dredge.storage import ObjectReader, ObjectWriter

log = logging.getLogger("dredge")

LEASE = "lease.json"
_ROUNDS_MAX = 20
_BEATS = 4
"""How often a right is renewed in the time that it lives."""


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """A right that was given.

    Attributes:
        holder: who has it.
        fencing: number of this right; larger than that of every earlier one.
        expires_at: by the store's clock.
    """

    holder: str
    fencing: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class _Held:
    """What the lease object says; holder "" means released."""

    holder: str
    fencing: int
    expires_at: datetime
    written_at: datetime
    etag: str


class Lease:
    """The lease object of a repository.

    Args:
        writer: on the folder that holds it.
        ttl: how long a right lives without being renewed.
        clock: the store's time.
        key: name of the object.
    """

    def __init__(
        self, writer: ObjectWriter, ttl: timedelta, clock: Callable[[], datetime], key: str = LEASE
    ) -> None:
        self._writer = writer
        self._ttl = ttl
        self._clock = clock
        self._key = key

    def acquire(self, holder: str) -> LeaseGrant:
        """Take the right, or take it over when it has expired.

        A holder that asks again gets it too, under a new number: what its earlier attempt may still be doing
        is fenced off.

        Raises:
            LeaseHeldError: somebody else has it.
        """
        now = self._clock()
        held = self._read()
        self._refuse_other(held, holder, now)
        if held is not None and held.holder not in ("", holder):
            log.warning("the lease of %s expired at %s and is taken over", held.holder, held.expires_at)
        grant = self._written(holder, 1 if held is None else held.fencing + 1, now, held)
        if grant is None:
            raise LeaseHeldError(
                f"{self._writer.uri}/{self._key}: somebody else changed the lease at the same moment."
                " Nothing was touched. Try again when the other run has ended."
            )
        return grant

    def check_free(self, holder: str) -> None:
        """Check that a holder could take the right now.

        Raises:
            LeaseHeldError: somebody else has it.
        """
        self._refuse_other(self._read(), holder, self._clock())

    def renew(self, grant: LeaseGrant, take_back: bool = True, shorten: bool = False) -> LeaseGrant:
        """Prolong a right, also an expired one, as long as nobody took it since.

        Args:
            grant: the right.
            take_back: also one that was given back. Right for a step that begins, because its run goes on; wrong
                for one that is at work, because its run ended without it.
            shorten: also one that lives longer. Right for who ends the wait that it was prolonged for; wrong for
                all others, because they may be an earlier try of a step and know nothing of that wait.

        Raises:
            LeaseHeldError: it has gone to somebody else, or was given back.
            UnavailableError: others with this right renew it all the time.
        """
        # The number alone decides: it is this right's own until somebody else takes the lease.
        holders = ("", grant.holder) if take_back else (grant.holder,)
        # Several hold a right at once (a step, its background thread, an earlier try of it), and any may renew it
        # between another's look and put. That takes nothing from anybody.
        for _ in range(_ROUNDS_MAX):
            held = self._read()
            if held is None or held.fencing != grant.fencing or held.holder not in holders:
                raise _lost(self._writer, self._key, grant, held)
            least = held.expires_at if held.holder and not shorten else None
            renewed = self._written(grant.holder, grant.fencing, self._clock(), held, least)
            if renewed is not None:
                return renewed
        raise self._busy()

    def hold(self, grant: LeaseGrant, now: datetime) -> None:
        """See that a right stands before a step begins, and prolong it unless that was done a short while ago.

        What is lost is told by the number, never by a clock. The clock only saves requests: when it is wrong, the
        right lives as long as it would without this step, whose background thread then renews it.

        Args:
            grant: the right, which may have been given back.
            now: this machine's time.

        Raises:
            LeaseHeldError: it has gone to somebody else.
            UnavailableError: others with this right renew it all the time.
        """
        held = self._read()
        stands = held is not None and (held.holder, held.fencing) == (grant.holder, grant.fencing)
        if not (held and stands and timedelta() <= now - held.written_at < self._ttl / _BEATS):
            self.renew(grant)

    def check(self, grant: LeaseGrant, now: datetime | None = None) -> None:
        """Look whether a right still stands.

        Args:
            grant: the right.
            now: the store's time; with it an expired right does not stand.

        Raises:
            LeaseHeldError: it does not.
        """
        check_lease(self._writer, self._key, grant, now)

    def release(self, grant: LeaseGrant) -> None:
        """Give a right back; nothing happens when it has gone to somebody else already.

        Raises:
            UnavailableError: others with this right renew it all the time.
        """
        for _ in range(_ROUNDS_MAX):
            held = self._read()
            if held is None or (held.holder, held.fencing) != (grant.holder, grant.fencing):
                return
            if self._written("", held.fencing, self._clock(), held) is not None:
                return
        raise self._busy()

    @contextmanager
    def given_back(self, grant: LeaseGrant) -> Iterator[None]:
        """Give a right back at the end of some work. Why the work failed is told, also when that fails as well: it
        says whether to try again.

        Args:
            grant: the right.

        Raises:
            UnavailableError: the work was done, and the right could not be given back.
        """
        try:
            yield
        except BaseException:
            try:
                self.release(grant)
            except DredgeError as error:
                log.warning("the lease is left to expire: %s", error)
            raise
        self.release(grant)

    @contextmanager
    def kept(self, grant: LeaseGrant, wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Renew a right in the background while a long step runs. A renewal that fails is logged: the sweep
        has its gate.

        Args:
            grant: the right.
            wanted: asked before each renewal; once it says no, the right is left to whoever goes on with the run.
        """
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

    def _refuse_other(self, held: _Held | None, holder: str, now: datetime) -> None:
        if held is not None and held.holder not in ("", holder) and held.expires_at > now:
            # Runs of the command line hold it under their id (`runs.run.local_holder`).
            local = held.holder.startswith("run ")
            resume = (
                " A killed run of the command line continues with `resume`; `runs` lists it." if local else ""
            )
            raise LeaseHeldError(
                f"{self._writer.uri}/{self._key}: {held.holder} works on this repository, or waits for a person's"
                f" answer, until {held.expires_at:%Y-%m-%d %H:%M:%S} UTC (store's clock). Nothing was touched. Wait"
                " for it to end, or answer it (approve or reject); if it died, the lease can be taken over after that"
                f" time.{resume}",
                held.holder,
            )

    def _read(self) -> _Held | None:
        return _read(self._writer, self._key)

    def _written(
        self, holder: str, fencing: int, now: datetime, old: _Held | None, least: datetime | None = None
    ) -> LeaseGrant | None:
        """Replace what was read, such that it lives until `least` at least; None when somebody has changed it since."""
        expires = now + self._ttl if least is None else max(now + self._ttl, least)
        data = json.dumps(
            {
                "holder": holder,
                "fencing": fencing,
                "written_at": now.isoformat(),
                "expires_at": expires.isoformat(),
                "id": uuid.uuid4().hex,  # nobody else ever writes the same
            }
        ).encode()
        # Clients send a request again whose answer was lost. The second one then meets what the first wrote.
        etag = None if old is None else old.etag
        if not replace_tagged(self._writer, self._key, data, etag) and not self._is(data):
            return None
        return LeaseGrant(holder, fencing, expires)

    def _is(self, data: bytes) -> bool:
        try:
            return self._writer.get(self._key) == data
        except NotFoundError:
            return False

    def _busy(self) -> UnavailableError:
        return UnavailableError(
            f"{self._writer.uri}/{self._key} was changed by others each of {_ROUNDS_MAX} times. Nothing was touched."
            " Try again when this run is not at work elsewhere."
        )


def check_lease(reader: ObjectReader, key: str, grant: LeaseGrant, now: datetime | None = None) -> None:
    """Look whether a right still stands, with a reader only; see `Lease.check`."""
    held = _read(reader, key)
    if held is None or (held.holder, held.fencing) != (grant.holder, grant.fencing):
        raise _lost(reader, key, grant, held)
    if now is not None and now >= held.expires_at:
        raise LeaseHeldError(
            f"{reader.uri}/{key}: the lease of {grant.holder} expired at {held.expires_at:%H:%M:%S} UTC and"
            " was not renewed. Nothing more was deleted. Run the step again; it goes on where it stopped."
        )


def used_until(reader: ObjectReader, key: str) -> datetime | None:
    """Tell until when a lease was in use, or may be: when it was given back, or else when it expires.

    Args:
        reader: on a folder that holds it.
        key: of the lease, relative to the reader.

    Returns:
        The time by the store's clock; None when nobody ever took it.

    Raises:
        FormatError: it is damaged.
    """
    held = _read(reader, key)
    if held is None:
        return None
    return held.written_at if held.holder == "" else held.expires_at


def _read(reader: ObjectReader, key: str) -> _Held | None:
    tagged = read_tagged(reader, key)
    if tagged is None:
        return None
    etag, data = tagged
    try:
        value = json.loads(data)
        expires = datetime.fromisoformat(value["expires_at"])
        written = datetime.fromisoformat(value.get("written_at", value["expires_at"]))
        return _Held(value["holder"], value["fencing"], expires, written, etag)
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{reader.uri}/{key} is not a lease ({error}). Nothing was touched. Look who wrote it, then"
            " remove the object."
        ) from None


def _lost(reader: ObjectReader, key: str, grant: LeaseGrant, held: _Held | None) -> LeaseHeldError:
    now = f"{held.holder or 'nobody'} (number {held.fencing})" if held is not None else "nobody"
    return LeaseHeldError(
        f"{reader.uri}/{key}: the lease of {grant.holder} (number {grant.fencing}) is lost, it is held by"
        f" {now}. Nothing more was deleted. Start a new run when the other one has ended."
    )


LEASE_MEMBER = "lease"
_ROUNDS_MAX = 20


def hand_over(writer: ObjectWriter, key: str, grant: LeaseGrant) -> bool:
    """Write a lease into a stored plan that an earlier lease of the same holder is in.

    Args:
        writer: on the run folder.
        key: name of the plan in it.
        grant: the new lease.

    Returns:
        Whether the plan carries this lease now. It does not when it is somebody else's, or when a lease with a
        higher number was there already; both are left as they are.

    Raises:
        NotFoundError: there is no plan.
        FormatError: it is damaged.
        UnavailableError: others replace the plan all the time.
    """
    for _ in range(_ROUNDS_MAX):
        tagged = read_tagged(writer, key)
        if tagged is None:
            raise NotFoundError(f"{writer.uri}/{key} is not there")
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
        if stored.fencing == grant.fencing:  # also by an earlier round whose answer was lost
            return True
        value = json.dumps({**plan, LEASE_MEMBER: to_json(grant)}, indent=1, sort_keys=True)
        if replace_tagged(writer, key, value.encode(), etag):
            return True
    raise UnavailableError(
        f"{writer.uri}/{key} was changed by others each of {_ROUNDS_MAX} times. Nothing was done. Run the task again"
        " when it is not being run elsewhere."
    )
