"""Locations of runs: a place is a repository with the folder of its runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dredge.errors import ConfigError, NotFoundError, UnavailableError
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.run import PLAN, RUNS, STATE
from dredge.icechunk.maintenance import RUNS as ICECHUNK_RUNS
from dredge.icechunk.maintenance import STATE as ICECHUNK_STATE
from dredge.runs.folder import run_ids
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.trash.state import STORE as TRASH_STORE

LAKEFS, ICECHUNK, KV = "lakefs", "icechunk", "kv"
KINDS = {LAKEFS: "lakeFS", ICECHUNK: "Icechunk", KV: "KV trash"}
_LEASES = {LAKEFS: f"/{STATE}", ICECHUNK: f"/{ICECHUNK_STATE}", KV: ""}


@dataclass(frozen=True, slots=True)
class Place:
    """A repository, and the location of its runs.

    Attributes:
        store_uri: URI of the collected data, for KV trash of the cleaner's state folder; "" with only runs known.
        repository: restricts the runs to a lakeFS repository; "" for all.
    """

    kind: str
    name: str
    runs_uri: str
    store_uri: str = ""
    options: StorageOptions | None = None
    repository: str = ""

    @property
    def key(self) -> str:
        """Short name for addresses of pages, without URIs."""
        return hashlib.sha256(f"{self.kind} {self.runs_uri} {self.repository}".encode()).hexdigest()[:16]

    @property
    def lease_uri(self) -> str:
        """URI of the folder with the lease; "" when unknown."""
        if not self.store_uri:
            return ""
        return f"{self.store_uri.rstrip('/')}{_LEASES[self.kind]}"


class Places(Protocol):
    """A source of places."""

    def all(self) -> Sequence[Place]:
        """Every place found now."""

    def problems(self) -> Sequence[str]:
        """Reasons for possibly missing places; empty without problems."""


def of_repository(
    name: str, namespace: str, run_root: str | None = None, options: StorageOptions | None = None
) -> Place:
    """The place of a repository of a lakeFS server."""
    store = namespace.rstrip("/")
    runs = f"{store}/{RUNS}" if run_root is None else run_root.rstrip("/")
    return Place(LAKEFS, name, runs, store, options, name)


def find(places: Places, key: str) -> Place:
    """Find a place by its key."""
    for place in places.all():
        if place.key == key:
            return place
    if problems := places.problems():
        raise UnavailableError(" ".join(problems))
    raise NotFoundError("there is no such repository here, or no longer")


@dataclass(frozen=True, slots=True)
class FolderPlaces:
    """The places below a URI: a storage namespace, an Icechunk repository, a state folder of the trash cleaner, a run
    root, the folder of one run, or a folder of several of these.
    """

    uri: str
    options: StorageOptions | None = None

    def all(self) -> Sequence[Place]:
        """Search again, so that new repositories appear."""
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
                f"{uri} has no runs: give the URI of a storage namespace, of an Icechunk repository, of a state folder"
                " of the trash cleaner, of a run root, or of a folder of some of these"
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
