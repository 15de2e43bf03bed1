"""Facts beyond the results of runs: schedules, missing intervals and pending requests from Airflow
(`operators/pages_airflow.py`); the reasons for keeping an object from a lakeFS server. `dredge ui` has no Airflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from fastapi import Request

from dredge.errors import RefusedError
from dredge.gc.insight.why import why
from dredge.gc.insight.why_answer import answer_lines, find_target
from dredge.gc.run import RUNS
from dredge.lakefs import LakeFSClient
from dredge.pages.places import Place
from dredge.runs.clock import Clock, utc_now


class NotAllowedError(RefusedError):
    """The user lacks a permission. Nothing was done."""

    kind = "not_allowed"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A scheduled collection.

    Attributes:
        next_at: time of the next run; None when switched off, or while runs are going on.
    """

    dag_id: str
    settings: Mapping[str, Any]
    text: str
    next_at: datetime | None
    may_backfill: bool
    is_off: bool = False

    def is_of(self, place: Place) -> bool:
        """Whether it collects a place."""
        if repository := self.settings.get("repository"):
            return place.kind == "lakefs" and repository == place.name
        uri = self.settings.get("storage") or self.settings.get("state_uri")
        return bool(uri) and str(uri).rstrip("/") == place.store_uri.rstrip("/")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run awaiting an answer."""

    subject: str
    dag_id: str
    run: str
    since: datetime
    address: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts for a user.

    Attributes:
        form_token: required in each changing form of this user.
        problem: reason for missing facts; "" without a problem.
    """

    is_airflow: bool = False
    schedules: tuple[Schedule, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    may_start: frozenset[str] = frozenset()
    form_token: str = ""
    problem: str = ""

    def schedules_of(self, place: Place) -> list[Schedule]:
        """Schedules of a place, the next one first."""
        found = [item for item in self.schedules if item.is_of(place)]
        return sorted(found, key=lambda item: (item.next_at is None, str(item.next_at)))

    def next_of(self, place: Place) -> datetime | None:
        """Time of the next scheduled run of a place; None when unknown."""
        return next((item.next_at for item in self.schedules_of(place)), None)


@dataclass(frozen=True, slots=True)
class Blocking:
    """A failed run with a waiting successor."""

    run: str
    address: str
    next: str


@dataclass(frozen=True, slots=True)
class Gaps:
    """Intervals of a schedule without a successful run.

    Attributes:
        starts: of the intervals, the oldest first; None without permission.
    """

    schedule: Schedule
    since: datetime
    starts: list[datetime] | None = field(default=None)
    blocking: tuple[Blocking, ...] = ()


class Surroundings(Protocol):
    """A source of facts, for the user of a request."""

    async def facts(self, request: Request) -> Facts:
        """Return facts for the user."""

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        """Search for intervals without a run."""

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        """Start a run in the name of the user, and return the address of its page."""


class Alone:
    """No Airflow: no facts, and no way to start runs."""

    async def facts(self, request: Request) -> Facts:
        """Return no facts."""
        return Facts()

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        """Refuse: there are no schedules."""
        raise NotAllowedError("there are no schedules here")

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        """Refuse: there is no Airflow."""
        raise NotAllowedError("these pages only read. Restore objects with `dredge gc restore`.")


class ServerAsker:
    """Asks a lakeFS server, the store and the results of runs.

    Args:
        client: returns the server; called for each question, so that credentials may change.
    """

    def __init__(self, client: Callable[[Place | None], LakeFSClient], clock: Clock = utc_now) -> None:
        self._client = client
        self._clock = clock

    def lines(self, what: str, place: Place | None) -> list[str]:
        """The reasons for keeping an object, as lines of text."""
        client = self._client(place)
        repository = None if place is None else place.repository or place.name
        options = None if place is None else place.options
        target = find_target(client, what, repository, options)
        root = None
        if (
            place is not None
            and place.store_uri
            and place.runs_uri != f"{place.store_uri.rstrip('/')}/{RUNS}"
        ):
            root = place.runs_uri
        return list(answer_lines(why(client, target, self._clock(), root, options=options)))
