"""lakeFS servers of a history, and a client with a transport straight to their handlers.

Real are the client, its transport's rules (recognition of lakeFS's own answers, retries), the handlers of the
embedded server, and the catalogs, one for each server with a separate clock and caches. Simulated is the wire: each
request is an actor in the server's process, so it survives its client, and dies with its server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import format_datetime
from functools import cache
from typing import Any

from starlette.datastructures import Headers, QueryParams

from dredge.errors import NotFoundError, UnavailableError
from dredge.lakefs import LakeFSClient
from dredge.lakefs.transport import DroppedError, Response, Transport
from dredge.lakefs.writing import LakeFSWriter
from dredge.storage import open_writer
from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.auth.model import User
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.kv import Store
from lakefs_embedded.server.authentication import Authenticator
from lakefs_embedded.server.namespaces import Namespaces
from lakefs_embedded.server.operations import Operation
from lakefs_embedded.server.requests import ApiRequest, Backend, Query
from lakefs_embedded.server.responses import to_response
from lakefs_embedded.server.routes import OPERATIONS
from lakefs_embedded.server.settings import ServerSettings
from lakefs_embedded.server.usage import Usage
from tests.simulation.clock import Clock
from tests.simulation.doors import Doors
from tests.simulation.kv import SCAN_OF_STAGING, DoorKV
from tests.simulation.noise import mix
from tests.simulation.scheduler import Process

OWNER = ("collector", "AKIAJSIMULATEDKEY000Q", "secret-of-the-lakefs-connection")
"""User, key and secret of the client; the secret must be in no file."""
URL = "https://lakefs.simulated"
RESTART_SECONDS = 20.0
PAGES = (
    (404, "default backend - 404"),
    (404, '{"message":"Not Found"}'),
    (404, "<html><body><h1>404 Not Found</h1></body></html>"),
    (200, "<html><title>Log in</title></html>"),
    (200, ""),
    (200, '{"results":[]}'),
    (502, "<html>Bad Gateway</html>"),
    (503, "no healthy upstream"),
    (503, '{"message":"Service Unavailable"}'),
    (403, "<html>Forbidden</html>"),
    (302, ""),
)


@dataclass
class Server:
    """One lakeFS server: a process with a catalog, created again at each restart."""

    name: str  # of the process
    kv: Store  # the shared key-value store
    doors: Doors  # of the history
    clock: Clock  # its own
    settings: ServerSettings  # of the server, with its defects
    lives: int = 0
    requests: int = 0
    process: Process = field(init=False)
    backend: Backend = field(init=False)
    user: User = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @property
    def catalog(self) -> Catalog:
        return self.backend.catalog

    def start(self) -> None:
        self.lives += 1
        name = self.name if self.lives == 1 else f"{self.name} life {self.lives}"
        self.process = Process(name, self.doors.scheduler, self.clock, role="server", may_fail=True)
        catalog = Catalog(
            DoorKV(self.kv, self.doors), open_writer, self.clock, self.settings.catalog_settings
        )
        accounts = Accounts(self.kv, signing_key="k", clock=self.clock, owner=OWNER)
        authenticator = Authenticator(accounts, signing_key="k", login_seconds=60, clock=self.clock)
        usage = Usage(self.kv, self.clock)
        self.backend = Backend(
            catalog, self.settings, accounts, authenticator, Namespaces(self.settings), usage
        )
        self.user = accounts.user(OWNER[0])

    def restart(self, seconds: float = RESTART_SECONDS) -> None:
        self.process.kill()
        scheduler = self.doors.scheduler
        operator = Process(f"{self.name} restarted {self.lives}", scheduler)
        scheduler.spawn(operator.name, self.start, operator, scheduler.now + seconds)

    def answer(self, operation: Operation, path: Mapping[str, str], query: list[Any], body: Any) -> Response:
        """Serve a request (called by an actor of the process)."""
        try:
            request = ApiRequest(
                backend=self.backend,
                path=path,
                query=Query(QueryParams(query)),
                headers=Headers({}),
                body=body or {},
                user=self.user,
                content=b"",
            )
            found = operation.handler(request)
        except Exception as error:
            found = to_response(error)
        self.backend.usage.count()
        date = format_datetime(self.clock(), usegmt=True)
        return Response(found.status_code, bytes(found.body).decode(), date)


def make_settings(catalog: Any, defects: frozenset[str] = frozenset()) -> ServerSettings:
    return ServerSettings(blockstore="s3", catalog=catalog, defects=defects)


class Balancer(Transport):
    """The balancer between a client and the servers: it chooses one for each connection, or answers itself."""

    def __init__(
        self, servers: list[Server], doors: Doors, kept: dict[str, Response], url: str = URL
    ) -> None:
        self.servers = servers
        self._doors = doors
        self._kept = kept
        self._connections = 0
        super().__init__(url, OWNER[1], OWNER[2])

    def _client(self) -> Any:
        self._connections += 1
        return mix(self._doors.scheduler.seed, self._connections)

    def _once(
        self,
        client: Any,
        method: str,
        path: str,
        names: Mapping[str, str] | None,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        read_seconds: float,
    ) -> Response:
        operation, arguments = route(method, path)
        # Most balancers choose again for every request.
        number = mix(client, self._doors.calls)
        server = self.servers[number % len(self.servers)]
        self._note_look(operation, body)
        given = {name: (names or {})[found] for name, found in arguments.items()}
        pairs = [(name, str(value)) for name, value in (query or {}).items()]

        def deed() -> Response:
            return self._asked(server, operation, given, pairs, body, read_seconds)

        asked = f"{method} {operation.name} {given} {pairs}"
        faults = _faults(server, number, given, self._kept.get(asked))
        found: Response = self._doors.call("lakefs", operation.name, deed, faults, " ".join(given.values()))
        if method == "GET" and found.status == 200:
            self._kept.setdefault(asked, replace(found, age="3600"))
        return found

    def _note_look(self, operation: Operation, body: Mapping[str, Any] | None) -> None:
        current = self._doors.scheduler.current
        begins = operation.name == SCAN_OF_STAGING and not (body or {}).get("continuation_token")
        if begins and current is not None and current.process.role == "bulk_delete":
            current.process.begun = self._doors.scheduler.now

    def _asked(
        self,
        server: Server,
        operation: Operation,
        path: Mapping[str, str],
        query: list[Any],
        body: Any,
        read_seconds: float,
    ) -> Response:
        scheduler = self._doors.scheduler
        if scheduler.current is None:
            return server.answer(operation, path, query, body)
        if not server.process.alive:
            return Response(502, "<html>Bad Gateway</html>")
        server.requests += 1
        actor = scheduler.spawn(
            f"{server.process.name} {operation.name}",
            lambda: server.answer(operation, path, query, body),
            server.process,
        )
        scheduler.join(actor, read_seconds)
        if not actor.ended:
            raise UnavailableError(f"lakeFS did not answer within {read_seconds:.0f} s")
        if not isinstance(actor.result, Response):
            raise DroppedError("lakeFS dropped the connection")
        return actor.result


def _faults(server: Server, number: int, path: Mapping[str, str], kept: Response | None) -> dict[str, Any]:
    def page(choice: int) -> Any:
        return lambda _deed: Response(*PAGES[choice])

    def lost(deed: Any) -> Any:
        deed()
        raise UnavailableError("lakeFS did not answer in time")

    def late(_deed: Any) -> Any:
        raise UnavailableError("lakeFS cannot be reached")

    def dropped(deed: Any) -> Any:
        if number % 2:
            deed()
        raise DroppedError("lakeFS dropped the connection")

    def cached(deed: Any) -> Any:
        if kept is not None:
            return kept
        found: Response = deed()
        return Response(found.status, found.text, found.date, age="3600")

    def poisoned(deed: Any) -> Any:
        # Only look-ups by the full id are in that cache.
        whole = any(len(name) == 64 for name in path.values())
        return Response(404, '{"message":"commit not found"}') if whole else deed()

    def restarts(_deed: Any) -> Any:
        server.restart()
        raise DroppedError("lakeFS dropped the connection: it is restarting")

    return {
        "proxy page": page(number % len(PAGES)),
        "proxy 404": page(number % 3),
        "cached answer": cached,
        "throttled": lambda _deed: Response(429, '{"message":"too many requests"}'),
        "request lost": late,
        "lakefs answer lost": lost,
        "connection dropped": dropped,
        "server restarts": restarts,
        "commit cache poisoned": poisoned,
    }


@cache
def route(method: str, path: str) -> tuple[Operation, dict[str, str]]:
    wanted = path.strip("/").split("/")
    for operation in OPERATIONS:
        parts = operation.path.strip("/").split("/")
        pairs = list(zip(parts, wanted, strict=False))
        if operation.method != method or len(parts) != len(wanted):
            continue
        if all(part == want or (part[0] == "{" == want[0]) for part, want in pairs):
            return operation, {part[1:-1]: want[1:-1] for part, want in pairs if part[0] == "{"}
    raise NotFoundError(f"the embedded server has no {method} {path}")


def make_client(
    servers: list[Server], doors: Doors, kept: dict[str, Response], url: str = URL
) -> LakeFSClient:
    """A collector's client of some servers; `kept` is the content of a cache on the way."""
    return _through(LakeFSClient(url, OWNER[1], OWNER[2]), Balancer(servers, doors, kept, url))


def make_writer(servers: list[Server], doors: Doors, kept: dict[str, Response]) -> LakeFSWriter:
    return _through(LakeFSWriter(URL, OWNER[1], OWNER[2]), Balancer(servers, doors, kept))


def _through[T: LakeFSClient](client: T, balancer: Balancer) -> T:
    client._transport = balancer
    return client
