"""Dredge's pages in Airflow: repositories come from Airflow's connections, permissions from Airflow's users.

Repositories come from the lakeFS server of ``lakefs_default``, and from the connections in the Variable
``dredge_gc_schedules``. Further folders, such as Icechunk repositories and run roots, are in the Variable
``dredge_pages``: ``[{"uri": "s3://lake/icechunk", "aws_conn_id": "aws_default"}]``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_dredge.operators.hooks.connections import find_connection
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.params import gc_schedules
from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, DredgeError
from dredge.settings import with_nearest

if TYPE_CHECKING:
    from fastapi import FastAPI

    from dredge.lakefs import LakeFSClient
    from dredge.pages.places import Place

#: Variable: a JSON list of further folders, each with `uri` and optionally `aws_conn_id`.
PAGES = "dredge_pages"
#: Access to the runs of this DAG gives access to the pages.
READERS_OF = "lakefs_gc"
_AWS = "aws_default"
_OF_A_PLACE = ("uri", "aws_conn_id")
_REMEMBERED_SECONDS = 30.0


class AirflowPlaces:
    """Repositories from Airflow's connections and Variables."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Place] = []
        self._of_server: dict[str, list[Place]] = {}
        self._problems: list[str] = []
        self._until = 0.0

    def all(self) -> Sequence[Place]:
        """Return every place, cached for half a minute. If a lakeFS server does not answer, its repositories
        come from the cache.
        """
        with self._lock:
            if time.monotonic() >= self._until:
                self._problems = []
                self._found = [*self._list_servers(), *_named()]
                self._until = time.monotonic() + _REMEMBERED_SECONDS
            return self._found

    def problems(self) -> Sequence[str]:
        """Return a message for each server that does not answer."""
        with self._lock:
            return list(self._problems)

    def client(self, place: Place | None) -> LakeFSClient:
        """Return the client of a place's lakeFS server, or of the default one."""
        for server, _ in _servers():
            client = LakeFSHook(server).client
            if place is None or any(item.name == place.name for item in client.repositories()):
                return client
        raise ConfigError(f"no lakeFS connection has the repository {'' if place is None else place.name}")

    def _list_servers(self) -> Iterator[Place]:
        from dredge.pages.places import of_repository

        roots = {
            str(settings["repository"]): str(settings["run_root"])
            for settings in gc_schedules().values()
            if settings.get("run_root")
        }
        for server, aws in _servers():
            try:
                options = storage_options(aws)
                self._of_server[server] = [
                    of_repository(item.name, item.namespace, roots.get(item.name), options)
                    for item in LakeFSHook(server).client.repositories()
                ]
            except DredgeError as error:
                self._problems.append(
                    f"The lakeFS server of connection {server} does not list its repositories: {error}"
                )
            yield from self._of_server.get(server, ())


def _servers() -> list[tuple[str, str]]:
    """Existing connections of lakeFS servers, each with its AWS connection."""
    wanted = [(LakeFSHook.default_conn_name, _AWS)] + [
        (
            str(settings.get("lakefs_conn_id", LakeFSHook.default_conn_name)),
            str(settings.get("aws_conn_id", _AWS)),
        )
        for settings in gc_schedules().values()
    ]
    return [pair for pair in dict.fromkeys(wanted) if _exists(pair[0])]


def _exists(conn_id: str) -> bool:
    try:
        return find_connection(conn_id) is not None
    except DredgeError:
        return True  # its use raises the error


def _named() -> Iterator[Place]:
    from dredge.pages.places import FolderPlaces

    found = json_variable(PAGES)
    if found is None:
        return
    if not isinstance(found, list) or not all(isinstance(item, dict) and item.get("uri") for item in found):
        raise ConfigError(
            f'Variable {PAGES} must be a list: [{{"uri": "s3://…", "aws_conn_id": "aws_default"}}]'
        )
    for item in found:
        for name in sorted(item.keys() - set(_OF_A_PLACE)):
            raise ConfigError(f"Variable {PAGES}: unknown setting {with_nearest(name, _OF_A_PLACE)}")
        try:
            yield from FolderPlaces(item["uri"], storage_options(item.get("aws_conn_id", _AWS))).all()
        except DredgeError:
            continue  # no collection yet, or the store is down: show the others


def make_pages(core: FastAPI) -> FastAPI:
    """Create the application.

    Each page requires read access to the runs of ``lakefs_gc``; a page that starts runs also requires access
    to its DAG.
    """
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    from airflow_dredge.operators.pages_airflow import AirflowFacts, keep_user, requires_access
    from dredge.pages.drawing import Pages
    from dredge.pages.places import ServerAsker
    from dredge.pages.web import CHANGING, make_app, warm_up

    warm_up()
    places = AirflowPlaces()
    return make_app(
        Pages(places, ServerAsker(places.client)),
        [requires_access("GET", READERS_OF), keep_user],
        AirflowFacts(core),
        {name: [requires_access("POST", name, DagAccessEntity.RUN)] for name in CHANGING},
    )
