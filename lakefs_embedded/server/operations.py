"""One row of the route table: an HTTP method and path, its handler, and the permissions that it needs.

A permission is an action, and a resource filled in from the request:

    fs(Action.WRITE_OBJECT, OBJECT)      repository/{repository}/object/{?path}

In a resource template `{name}` is a path parameter, `{?name}` a query parameter, `{.name}` a field of the JSON
body, `{.outer.inner}` a field of a field.

Source: lakeFS pkg/api/controller.go (the permissions node of each call).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from lakefs_embedded.auth.permissions import ALL, AUTH_PREFIX, FS_PREFIX, Action, Permission
from lakefs_embedded.server.requests import ApiRequest, Query
from lakefs_embedded.server.schemas import BodySchema

_PLACEHOLDER = re.compile(r"\{([?.]?)([\w.]+)\}")

REPOSITORY = "repository/{repository}"
OBJECT = REPOSITORY + "/object/{?path}"
BRANCH = REPOSITORY + "/branch/{branch}"
TAG = REPOSITORY + "/tag/{tag}"
USER = "user/{user}"
GROUP = "group/{group}"
POLICY = "policy/{policy}"


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """A permission with a resource from the request: an ARN template, see the module docstring."""

    action: Action
    resource: str

    def resolve(self, path: Mapping[str, str], query: Query, body: Any) -> Permission:
        """Fill in the resource of one request; raises RequestError when the query lacks its parameter."""

        def fill(match: re.Match[str]) -> str:
            source, name = match.groups()
            if source == "?":
                return query.required(name)
            return _field(body, name) if source == "." else path[name]

        return Permission(self.action, _PLACEHOLDER.sub(fill, self.resource))


def _field(body: Any, name: str) -> str:
    for part in name.split("."):
        body = body.get(part) or ""
    return str(body)


type RequiredPermissions = tuple[RequiredPermission, ...]

PUBLIC: None = None
"""No credentials are needed."""

AUTHENTICATED: RequiredPermissions = ()
"""Valid credentials are enough; the handler may check permissions on each resource it touches."""


def fs(action: Action, resource: str) -> RequiredPermissions:
    """Require an action on a repository or on something in it."""
    return (RequiredPermission(action, FS_PREFIX + resource),)


def auth(action: Action, resource: str) -> RequiredPermissions:
    """Require an action on a user, a group or a policy."""
    return (RequiredPermission(action, AUTH_PREFIX + resource),)


def any_resource(action: Action) -> RequiredPermissions:
    """Require an action without a resource; only a policy on `*` allows it."""
    return (RequiredPermission(action, ALL),)


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
