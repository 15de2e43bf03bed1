"""Dredge's pages inside Airflow: which repositories there are by its connections, and who may see them by its rights.

Repositories are those of the lakeFS server of ``lakefs_default``, and of the connections that entries of the Variable
``dredge_gc_schedules`` name. Others, such as Icechunk repositories and run roots, are named in the Variable
``dredge_pages``: ``[{"uri": "s3://lake/icechunk", "aws_conn_id": "aws_default"}]``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.hooks.connections import find_connection
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.params import gc_schedules
from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, DredgeError
from dredge.settings import with_nearest

if TYPE_CHECKING:
    from fastapi import FastAPI

    from dredge.lakefs import LakeFS
    from dredge.pages.places import Place

#: Variable: a JSON list of further places, each with `uri` and, if wanted, `aws_conn_id`.
PAGES = "dredge_pages"
#: A DAG: who may read its runs may see the pages.
READERS_OF = "lakefs_gc"
_AWS = "aws_default"
_OF_A_PLACE = ("uri", "aws_conn_id")
_REMEMBERED_SECONDS = 30.0

type _Scope = MutableMapping[str, Any]
type _Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
type _Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class AirflowPlaces:
    """The repositories that Airflow's connections and Variables lead to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Place] = []
        self._of_server: dict[str, list[Place]] = {}
        self._problems: list[str] = []
        self._until = 0.0

    def all(self) -> Sequence[Place]:
        """Return every place; looks again after half a minute.

        A lakeFS server that does not answer hides nothing but its own repositories, and those only that nobody has
        seen before it went away.

        :raises ConfigError: a Variable does not say what it should
        """
        with self._lock:
            if time.monotonic() >= self._until:
                self._problems = []
                self._found = [*self._of_servers(), *_named()]
                self._until = time.monotonic() + _REMEMBERED_SECONDS
            return self._found

    def problems(self) -> Sequence[str]:
        """Return which servers did not answer."""
        with self._lock:
            return list(self._problems)

    def client(self, place: Place | None) -> LakeFS:
        """Return the lakeFS server that knows a place, else the default one."""
        for server, _ in _servers():
            client = LakeFSHook(server).client
            if place is None or any(item.name == place.name for item in client.repositories()):
                return client
        raise ConfigError(f"no lakeFS connection knows the repository {'' if place is None else place.name}")

    def _of_servers(self) -> Iterator[Place]:
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
                    f"The lakeFS server of connection {server} does not say which repositories it has: {error}"
                )
            yield from self._of_server.get(server, ())


def _servers() -> list[tuple[str, str]]:
    """Connections of lakeFS servers that exist, each with the AWS connection of its stores."""
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
        return True  # who uses it is told why it cannot be had


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
            continue  # nothing was collected there yet, or its store is down: the others are shown


class LazyPages:
    """The pages' application, made when somebody first asks for a page.

    Every process of Airflow loads plugins, and some of them fork: none should pay for pages that it never serves.
    """

    def __init__(self) -> None:
        self._app: FastAPI | None = None

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Serve a request."""
        if self._app is None:
            self._app = make_pages(scope["app"])  # the application that this one is mounted in
        await self._app(scope, receive, send)


def make_pages(core: FastAPI) -> FastAPI:
    """Make the application.

    Each of its pages asks whether the user may read the runs of ``lakefs_gc``; those that start runs of a DAG ask
    besides whether the user may.

    :param core: Airflow's own application
    """
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    from airflow_dredge.operators.pages_airflow import AirflowSurroundings, keep_user, requires_access
    from dredge.pages.drawing import Pages
    from dredge.pages.surroundings import ServerAsker
    from dredge.pages.web import CHANGING, make_app, warm_up

    warm_up()
    places = AirflowPlaces()
    return make_app(
        Pages(places, ServerAsker(places.client)),
        [requires_access("GET", READERS_OF), keep_user],
        AirflowSurroundings(core),
        {name: [requires_access("POST", name, DagAccessEntity.RUN)] for name in CHANGING},
    )
