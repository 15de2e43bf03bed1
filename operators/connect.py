"""What a run tells a Spark Connect server, and whoever starts a Spark of this machine its memory."""

from __future__ import annotations

import hashlib
import uuid

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

#: For whoever starts a driver, a client or a Connect server, whose workers have it from there: glibc would have eight
#: arenas for each processor, and keep what a task gave back. A third of what two workers hold at their peak.
SMALL_MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}


def remote_of_run(url: str, run_uri: str) -> tuple[str, str | None]:
    """Give the Connect address for a run: one session id for all its steps, and the token apart.

    :param url: ``sc://host:port/;key=value;…``
    :param run_uri: names the run
    :return: the address without token, and the token
    """
    place, _, settings = url.partition("/;")
    kept, token = [], None
    for item in filter(None, settings.split(";")):
        name, _, value = item.partition("=")
        if name == "token":
            token = value
        elif name != "session_id":
            kept.append(item)
    # The same id in every step and every retry: the server keeps the session's Python workers warm.
    session_id = uuid.UUID(bytes=hashlib.sha256(run_uri.encode()).digest()[:16], version=4)
    return f"{place.rstrip('/')}/;{';'.join([*kept, f'session_id={session_id}'])}", token
