"""The embedded lakeFS: a real server's HTTP API over `dredge.graveler`, for demos, tests and small lakes.

Start at `routes/` (every call, and how to add one), then `handlers/`. Handlers only translate between HTTP and
`dredge.graveler`, which decides what a call means. `service.py` builds a server and `running.py` runs it;
`fault_injection.py` lets tests fail its requests.
"""

from __future__ import annotations

from dredge.server.data_folder import Credentials, DataFolder
from dredge.server.fault_injection import DropConnection, FaultInjector, IncomingRequest, InjectedResponse
from dredge.server.running import ThreadedServer, serve
from dredge.server.settings import DEFECTS, HTTP_DEFECTS, ServerSettings

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
