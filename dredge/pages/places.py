"""Places (repositories with the folder of their runs), and facts from other sources than runs.

Schedules, missing intervals and pending requests come from Airflow (`operators/pages_airflow.py`), the reasons for
keeping an object from a lakeFS server. `dredge ui` has no Airflow.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from fastapi import Request

from dredge.errors import ConfigError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.insight.why import why
from dredge.gc.insight.why_answer import answer_lines, find_target
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.run import PLAN, RUNS, STATE
from dredge.icechunk.maintenance import RUNS as ICECHUNK_RUNS
from dredge.icechunk.maintenance import STATE as ICECHUNK_STATE
from dredge.lakefs import LakeFSClient
from dredge.runs.clock import Clock, utc_now
from dredge.runs.folder import run_ids
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.trash.state import STORE as TRASH_STORE

LAKEFS, ICECHUNK, KV = "lakefs", "icechunk", "kv"
KINDS = {LAKEFS: "lakeFS", ICECHUNK: "Icechunk", KV: "KV trash"}
_LEASES = {LAKEFS: f"/{STATE}", ICECHUNK: f"/{ICECHUNK_STATE}", KV: ""}


@dataclass(frozen=True, slots=True)
class Place:
    """A repository, and the location of its runs."""

    kind: str
    name: str
    runs_uri: str
    # URI of the collected data, for KV trash of the cleaner's state folder; "" with only runs known
    store_uri: str = ""
    options: StorageOptions | None = None
    repository: str = ""  # restricts the runs to a lakeFS repository; "" for all

    @property
    def key(self) -> str:
        """Short name in the addresses of pages, without URIs."""
        return hashlib.sha256(f"{self.kind} {self.runs_uri} {self.repository}".encode()).hexdigest()[:16]

    @property
    def lease_uri(self) -> str:
        """URI of the folder with the lease; "" if unknown."""
        if not self.store_uri:
            return ""
        return f"{self.store_uri.rstrip('/')}{_LEASES[self.kind]}"


class Places(Protocol):
    """A source of places."""

    def all(self) -> Sequence[Place]:
        """Return every existing place."""

    def problems(self) -> Sequence[str]:
        """Return the reasons why places may be missing; empty without problems."""


def of_repository(
    name: str, namespace: str, run_root: str | None = None, options: StorageOptions | None = None
) -> Place:
    """Return the place of a repository of a lakeFS server."""
    store = namespace.rstrip("/")
    runs = f"{store}/{RUNS}" if run_root is None else run_root.rstrip("/")
    return Place(LAKEFS, name, runs, store, options, name)


def find(places: Places, key: str) -> Place:
    """Find a place by its key; raises NotFoundError."""
    for place in places.all():
        if place.key == key:
            return place
    if problems := places.problems():
        raise UnavailableError(" ".join(problems))
    raise NotFoundError("there is no such repository here; it may have been deleted")


@dataclass(frozen=True, slots=True)
class FolderPlaces:
    """The places below a URI: a storage namespace, an Icechunk repository, a state folder of the trash cleaner, a run
    root, the folder of one run, or a folder of several of these."""

    uri: str
    options: StorageOptions | None = None

    def all(self) -> Sequence[Place]:
        """Search again, so that the result includes new repositories."""
        uri = self.uri.rstrip("/")
        reader = open_reader(uri, self.options)
        here = self._at(uri, reader)
        if here:
            return here
        folders = set(reader.list_level("").folders)
        if METADATA in folders:
            folders.discard(DATA)  # the names of its folders are like those of runs
        names = [folder.rstrip("/") for folder in sorted(folders)]
        found = [place for name in names for place in self._at(f"{uri}/{name}", reader, f"{name}/")]
        if not found:
            raise ConfigError(
                f"there are no runs at {uri}: give the URI of a storage namespace, an Icechunk repository, a state"
                " folder of the trash cleaner, a run root, or a folder with several of these"
            )
        return found

    def problems(self) -> Sequence[str]:
        """Always empty."""
        return ()

    def _at(self, uri: str, reader: ObjectReader, below: str = "") -> list[Place]:
        """The places at a URI, with a `reader` and the path `below` it."""
        level = reader.list_level(below)
        folders = {folder.removeprefix(below) for folder in level.folders}
        objects = {info.key.removeprefix(below) for info in level.objects}
        name = uri.rpartition("/")[2]
        if METADATA in folders and run_ids(open_reader(f"{uri}/{RUNS}", self.options)):
            return [Place(LAKEFS, name, f"{uri}/{RUNS}", uri, self.options)]
        if f"{ICECHUNK_STATE}/" in folders:
            return [Place(ICECHUNK, name, f"{uri}/{ICECHUNK_RUNS}", uri, self.options)]
        if TRASH_STORE in objects and "runs/" in folders:
            return [Place(KV, name, f"{uri}/runs", uri, self.options)]
        if PLAN in objects:
            return [Place(LAKEFS, name, uri.rpartition("/")[0], "", self.options)]
        if run_ids(open_reader(uri, self.options)):
            return [Place(LAKEFS, name, uri, "", self.options)]
        return []


class NotAllowedError(RefusedError):
    """The user lacks a permission. Nothing was changed."""

    kind = "not_allowed"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A scheduled collection."""

    dag_id: str
    settings: Mapping[str, Any]
    text: str
    next_at: datetime | None  # time of the next run; None when switched off, or while runs are going on
    may_backfill: bool
    is_off: bool = False

    def is_of(self, place: Place) -> bool:
        """Return whether the schedule collects a place."""
        if repository := self.settings.get("repository"):
            return place.kind == "lakefs" and repository == place.name
        uri = self.settings.get("storage") or self.settings.get("state_uri")
        return bool(uri) and str(uri).rstrip("/") == place.store_uri.rstrip("/")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run waiting for an approval."""

    subject: str
    dag_id: str
    run: str
    since: datetime
    address: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts for a user."""

    is_airflow: bool = False
    schedules: tuple[Schedule, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    may_start: frozenset[str] = frozenset()
    form_token: str = ""  # required in each changing form of this user
    problem: str = ""  # reason for missing facts; "" without a problem

    def schedules_of(self, place: Place) -> list[Schedule]:
        """Return the schedules of a place, the next one first."""
        found = [item for item in self.schedules if item.is_of(place)]
        return sorted(found, key=lambda item: (item.next_at is None, str(item.next_at)))

    def next_of(self, place: Place) -> datetime | None:
        """Return the time of the next scheduled run of a place; None if unknown."""
        return next((item.next_at for item in self.schedules_of(place)), None)


@dataclass(frozen=True, slots=True)
class Blocking:
    """A failed run, and the later run blocked by it."""

    run: str
    address: str
    next: str


@dataclass(frozen=True, slots=True)
class Gaps:
    """Intervals of a schedule without a successful run."""

    schedule: Schedule
    since: datetime
    # of the intervals, the oldest first; None without permission
    starts: list[datetime] | None = field(default=None)
    blocking: tuple[Blocking, ...] = ()


class Surroundings(Protocol):
    """A source of facts for the user of a request."""

    async def facts(self, request: Request) -> Facts:
        """Return facts for the user."""

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        """Search for intervals without a run."""

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        """Start a run in the name of the user, and return the address of its page."""


class Alone:
    """Facts without Airflow: none, and runs cannot be started."""

    async def facts(self, request: Request) -> Facts:
        """Return no facts."""
        return Facts()

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        """Refuse: there are no schedules."""
        raise NotAllowedError("these pages know no schedules: open the pages in Airflow")

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        """Refuse: there is no Airflow."""
        raise NotAllowedError("these pages cannot start runs. Restore objects with `dredge gc restore`.")


class ServerAsker:
    """Asks a lakeFS server, the store and the results of runs. `client`: returns the server; called for each question,
    so that credentials may change."""

    def __init__(self, client: Callable[[Place | None], LakeFSClient], clock: Clock = utc_now) -> None:
        self._client = client
        self._clock = clock

    def lines(self, what: str, place: Place | None) -> list[str]:
        """Return the reasons why an object is kept, as lines of text."""
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
