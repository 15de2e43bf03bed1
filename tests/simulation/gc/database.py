"""Accidents of an installation's database: it is restored to an earlier day, or a second installation works on a copy
of it with the same namespace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dredge.lakefs import LakeFSClient
from dredge.lakefs.transport import Response
from tests.simulation.kv import WatchedKV
from tests.simulation.lakefs import URL, Server, make_client
from tests.simulation.orchestrator import Orchestrator
from tests.simulation.truth import Truth

OTHER_URL = "https://rehearsal.simulated"


@dataclass
class Database:
    kv: WatchedKV  # the store
    servers: Sequence[Server]  # that use it
    truth: Truth  # follows it
    orchestrator: Orchestrator  # of the installation's collector
    backup: dict[tuple[bytes, bytes], bytes] | None = None  # all rows as they were, by partition and key
    # servers of the other installation, on a store of their own
    clone: list[Server] = field(default_factory=list)
    url: str = OTHER_URL  # of the other installation

    @property
    def verbs(self) -> dict[str, Callable[..., None]]:
        return {
            "back up database": self._back_up,
            "put database back": self._put_back,
            "clone database": self._clone,
        }

    def other_orchestrator(self) -> Orchestrator | None:
        """The collector of the other installation, with its runs listed among all; None without one."""
        if not self.clone:
            return None
        kept: dict[str, Response] = {}

        def client() -> LakeFSClient:
            return make_client(self.clone, self.clone[0].doors, kept, self.url)

        return replace(self.orchestrator, make_client=client)

    def _back_up(self) -> None:
        self.backup = self.kv.rows()

    def _put_back(self) -> None:
        if self.backup is None:
            return
        for server in self.servers:
            server.process.kill()
        with self.truth.losing():
            self.kv.put_back(self.backup)
        for server in self.servers:
            server.start()

    def _clone(self, same_url: bool) -> None:
        kv, first = WatchedKV(), self.servers[0]
        kv.put_back(self.kv.rows())
        self.clone = [Server("server of clone", kv, first.doors, first.clock, first.settings)]
        self.url = URL if same_url else OTHER_URL
