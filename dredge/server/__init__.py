"""The embedded lakeFS: the HTTP API of a real server over `dredge.graveler`, for demos, tests and small
lakes.

Start at `routes.py` (every call), then `handlers/` (arguments in, shapes out). What the calls mean is not
decided here: handlers translate, graveler decides. `running.py` starts a server, `hooks.py` lets tests
stand in its way.
"""

from __future__ import annotations

from dredge.server.folders import Credentials, DataFolder
from dredge.server.hooks import Answer, Drop, Hooks, Seen
from dredge.server.running import ThreadedServer, serve
from dredge.server.settings import DEFECTS, HTTP_DEFECTS, ServerSettings

__all__ = [
    "DEFECTS",
    "HTTP_DEFECTS",
    "Answer",
    "Credentials",
    "DataFolder",
    "Drop",
    "Hooks",
    "Seen",
    "ServerSettings",
    "ThreadedServer",
    "serve",
]
