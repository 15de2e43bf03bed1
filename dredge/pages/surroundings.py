"""What knows the pages' user, and what runs leave no word of: when a collection runs next, which intervals have no run,
what waits for a person. Airflow does, around its own pages (`operators/pages_airflow.py`); `dredge ui` is alone.
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
from dredge.gc.plan import RUNS
from dredge.lakefs import LakeFS
from dredge.pages.places import Place
from dredge.runs.clock import Clock, utc_now


class NotAllowedError(RefusedError):
    """The user may not do this. Nothing was done."""

    kind = "not_allowed"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A collection that runs by itself.

    Attributes:
        dag_id: its name.
        settings: what its runs are started with, by name.
        text: when, in words.
        next_at: when it runs next; None when it is switched off, or Airflow does not say while runs of it go on.
        may_backfill: whether intervals of the past can be made up.
        is_off: whether it is switched off.
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
    """A run that waits for a person.

    Attributes:
        subject: what is asked.
        dag_id: whose run it is.
        run: its id.
        since: when it was asked.
        address: of the page where it is answered.
    """

    subject: str
    dag_id: str
    run: str
    since: datetime
    address: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known, to the one who asks.

    Attributes:
        is_airflow: whether links may lead into Airflow.
        schedules: collections that run by themselves.
        waiting: what waits for a person.
        may_start: DAGs whose runs the user may start from here.
        form_token: what a form of this user must carry that changes something.
        problem: why something is missing; "" when nothing is.
    """

    is_airflow: bool = False
    schedules: tuple[Schedule, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    may_start: frozenset[str] = frozenset()
    form_token: str = ""
    problem: str = ""

    def schedules_of(self, place: Place) -> list[Schedule]:
        """What collects a place, the next one first."""
        found = [item for item in self.schedules if item.is_of(place)]
        return sorted(found, key=lambda item: (item.next_at is None, str(item.next_at)))

    def next_of(self, place: Place) -> datetime | None:
        """When a place is collected next; None where nothing says so."""
        return next((item.next_at for item in self.schedules_of(place)), None)


@dataclass(frozen=True, slots=True)
class Blocking:
    """A run that failed, and for which the run after it waits.

    Attributes:
        run: its id.
        address: of its page.
        next: id of the run that waits.
    """

    run: str
    address: str
    next: str


@dataclass(frozen=True, slots=True)
class Gaps:
    """Intervals of a schedule without a run that ended well.

    Attributes:
        schedule: whose.
        starts: of the intervals, the oldest first; None where the user may not ask for it.
        since: intervals before were not looked at.
        blocking: runs that hold up later ones.
    """

    schedule: Schedule
    since: datetime
    starts: list[datetime] | None = field(default=None)
    blocking: tuple[Blocking, ...] = ()


class Surroundings(Protocol):
    """Who knows. What a request may know depends on whose it is."""

    async def facts(self, request: Request) -> Facts:
        """Give what is known."""

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        """Look for intervals without a run."""

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        """Start a run in the name of the user, and give the address of its page.

        Raises:
            NotAllowedError: the user may not.
            DredgeError: it was not started.
        """


class Alone:
    """Nobody around: nothing is known, and nothing can be started."""

    async def facts(self, request: Request) -> Facts:
        """Nothing is known."""
        return Facts()

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        """Nothing is known."""
        raise NotAllowedError("there are no schedules here")

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        """Nothing can be started."""
        raise NotAllowedError("these pages only read. `dredge gc restore` brings objects back.")


class ServerAsker:
    """Asks a lakeFS server, the store and what runs left.

    Args:
        client: gives the server; asked once a question, so that credentials may change.
        clock: this machine's.
    """

    def __init__(self, client: Callable[[Place | None], LakeFS], clock: Clock = utc_now) -> None:
        self._client = client
        self._clock = clock

    def lines(self, what: str, place: Place | None) -> list[str]:
        """Say in lines of text what keeps an object.

        Args:
            what: an address, or `lakefs://repository/ref/path`.
            place: whose address it is, where that does not say it.

        Raises:
            ConfigError: it cannot be told what is asked about.
            NotFoundError: no such repository or path.
        """
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
