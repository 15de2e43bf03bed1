"""One row of the route table: an HTTP method and path, and its handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response

from lakefs_embedded.server.permissions import RequiredPermissions
from lakefs_embedded.server.requests import ApiRequest
from lakefs_embedded.server.schema import BodySchema

type Handler = Callable[[ApiRequest], Response]


@dataclass(frozen=True, slots=True)
class Operation:
    """A call of the API.

    Attributes:
        path: path below the API's base path; `{name}` is a path parameter.
        handler: blocking function to serve the call; its name is the operation's name.
        permissions: permissions the user must hold, all of them. Empty: any authenticated user
            (`AUTHENTICATED`). None: no credentials are needed (`PUBLIC`).
        schema: schema of the JSON body; None for a call without one.
    """

    method: str
    path: str
    handler: Handler
    permissions: RequiredPermissions | None
    schema: BodySchema | None = None

    @property
    def public(self) -> bool:
        """Whether the call needs no credentials."""
        return self.permissions is None

    @property
    def name(self) -> str:
        """Name of the operation in fault injection rules and in the access log."""
        return self.handler.__name__
