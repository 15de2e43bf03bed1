"""The pages of a world, in a browser without scripts."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI, Request

from dredge.pages.drawing import Pages
from dredge.pages.places import Blocking, Facts, FolderPlaces, Gaps, Place, Schedule, ServerAsker
from dredge.pages.web import CHANGING, make_app
from tests.support.gc import World

SCRIPT = "<script>alert('x')</script>"
HOSTILE = f"data/{SCRIPT}\"'&?#%2f😀" + "x" * 300


ADDRESSES = (
    "/",
    "/place/a",
    "/place/a/gaps",
    "/place/a/run/b",
    "/place/a/run/b/state",
    "/place/a/run/b/report",
    "/place/a/run/b/objects",
    "/place/a/run/b/objects.csv",
    "/place/a/run/b/restore",
    "/place/a/expiration/b",
    "/run?dag=a&run=b",
    "/why",
    "/static/pages.css",
)
"""One of each read-only route."""
CHANGES = tuple(f"/place/a/run/b/{form}" for form in ("restore", "restore-icechunk", "restore-rows"))
"""One of each route with an effect."""


@dataclass
class Browser:
    """A browser without scripts."""

    __test__ = False

    app: FastAPI

    def get(
        self, address: str, follow_redirects: bool = True, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return asyncio.run(self._get(address, follow_redirects, headers))

    async def _get(
        self, address: str, follow_redirects: bool, headers: Mapping[str, str] | None
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://dredge") as client:
            return await client.get(address, follow_redirects=follow_redirects, headers=headers)

    def post(self, address: str, fields: Mapping[str, str]) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://dredge") as client:
                return await client.post(address, data=dict(fields))

        return asyncio.run(send())


@dataclass
class Site:
    """Pages of a world, in a browser without scripts."""

    world: World  # the collected world
    client: Browser  # the browser
    place: str  # address of the repository's page

    def text(self, address: str, status: int = 200) -> str:
        answer = self.client.get(address)
        assert answer.status_code == status, answer.text
        return answer.text


def site_of(world: World) -> Site:
    places = FolderPlaces(world.lake.namespace)
    asker = ServerAsker(lambda _place: world.client, world.lake.clock)
    client = Browser(make_app(Pages(places, asker, clock=world.lake.clock)))
    return Site(world, client, f"/place/{places.all()[0].key}")


def newest(site: Site) -> str:
    found = re.search(r'href="(place/[0-9a-f]+/run/[0-9a-v]+)"', site.text(site.place))
    assert found is not None
    return f"/{found[1]}"


@dataclass
class Around:
    known: Facts  # its message
    starts: list[Any] | None = None
    # runs that were started: DAG and settings
    started: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    blocking: tuple[Blocking, ...] = ()  # runs that hold up later ones

    async def facts(self, request: Request) -> Facts:
        return self.known

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        return Gaps(schedule, schedule.next_at, self.starts, self.blocking)  # type: ignore[arg-type]

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        self.started.append((dag_id, dict(settings)))
        return f"dags/{dag_id}/runs/manual__1"


@dataclass
class Fixed:
    """Known places, and the message for unknown ones."""

    places: Sequence[Place] = ()
    said: Sequence[str] = ()

    def all(self) -> Sequence[Place]:
        return self.places

    def problems(self) -> Sequence[str]:
        return self.said


def pages_of(*places: Place, around: Around | None = None, **more: Any) -> Browser:

    def anybody() -> None:
        """Allow every user."""

    return Browser(
        make_app(Pages(Fixed(places), **more), [anybody], around, {key: [anybody] for key in CHANGING})
    )
