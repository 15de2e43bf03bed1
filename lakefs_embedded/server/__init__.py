"""A real server's HTTP API over `lakefs_embedded.catalog`.

Start at `routes.py` (every call, and how to add one), then `handlers/`. Handlers only translate between HTTP and the
catalog. `service.py` builds a server and `running.py` runs it; `endpoint.py` lets tests fail its requests.
"""

from lakefs_embedded.server.endpoint import DropConnection, FaultInjector, IncomingRequest, InjectedResponse
from lakefs_embedded.server.running import ThreadedServer, serve
from lakefs_embedded.server.settings import DEFECTS, HTTP_DEFECTS, Credentials, DataFolder, ServerSettings

__all__ = [
    "DEFECTS",
    "HTTP_DEFECTS",
    "Credentials",
    "DataFolder",
    "DropConnection",
    "FaultInjector",
    "IncomingRequest",
    "InjectedResponse",
    "ServerSettings",
    "ThreadedServer",
    "serve",
]
