"""Calls of the API that the server makes itself, in the name of the user whose request it is handling.

    a Lua hook, in a worker thread  →  ASGI request in an event loop of its own  →  the same routes and permissions

A loop of its own has worker threads of its own: hooks that wait for calls cannot use up those that serve them.

Source: lakeFS pkg/actions/lua/lakefs/client.go, which calls its own handler likewise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import unquote, urlencode

from starlette.types import ASGIApp, Message, Scope

from dredge.graveler.actions import acting_user
from dredge.server.authentication import Authenticator
from dredge.server.responses import to_json
from dredge.server.routes import BASE_PATH


class OwnCalls:
    """Makes calls.

    Args:
        app: the application.
        authenticator: makes tokens.
    """

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    def __call__(self, method: str, path: str, query: Mapping[str, str], body: object) -> tuple[int, bytes]:
        """Make a call, from a thread without an event loop.

        Args:
            method: HTTP method.
            path: below the base path, percent-encoded.
            query: query parameters.
            body: becomes JSON; None for a call without a body.

        Returns:
            Status and body.

        Raises:
            UnauthorizedError: 401, there is no user, or not any more.
        """
        token, _ = self._authenticator.token(acting_user.get())
        content = b"" if body is None else to_json(body)
        headers = [(b"authorization", f"Bearer {token}".encode()), (b"host", b"localhost")]
        if body is not None:
            headers += [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(content)).encode()),
            ]
        raw_path = BASE_PATH + path
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(raw_path),
            "raw_path": raw_path.encode(),
            "root_path": "",
            "query_string": urlencode(query).encode(),
            "headers": headers,
            "client": None,
            "server": None,
        }
        return asyncio.run(self._exchange(scope, content))

    async def _exchange(self, scope: Scope, content: bytes) -> tuple[int, bytes]:
        status = 500
        chunks: list[bytes] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                chunks.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return status, b"".join(chunks)
