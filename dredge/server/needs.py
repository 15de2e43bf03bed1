"""What a call needs to be allowed: an action, and a resource made from the request.

    fs(Action.WRITE_OBJECT, OBJECT)      repository/{repository}/object/{?path}

In a resource `{name}` is a parameter of the path, `{?name}` one of the query, `{.name}` a field of the body.

Source: lakeFS pkg/api/controller.go (the permissions node of each call).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dredge.auth.permissions import ALL, AUTH_PREFIX, FS_PREFIX, Action, Permission
from dredge.server.query import Query

_PLACE = re.compile(r"\{([?.]?)(\w+)\}")

REPOSITORY = "repository/{repository}"
OBJECT = REPOSITORY + "/object/{?path}"
BRANCH = REPOSITORY + "/branch/{branch}"
TAG = REPOSITORY + "/tag/{tag}"
USER = "user/{user}"
GROUP = "group/{group}"
POLICY = "policy/{policy}"


@dataclass(frozen=True, slots=True)
class Need:
    """An action, and how to name what it acts on.

    Attributes:
        action: of lakeFS.
        resource: the template.
    """

    action: Action
    resource: str

    def permission(self, path: Mapping[str, str], query: Query, body: Any) -> Permission:
        """What this request needs.

        Raises:
            RequestError: 400; a parameter that names the resource is missing.
        """

        def fill(match: re.Match[str]) -> str:
            source, name = match.groups()
            if source == "?":
                return query.required(name)
            return str(body.get(name) or "") if source == "." else path[name]

        return Permission(self.action, _PLACE.sub(fill, self.resource))


type Needs = tuple[Need, ...]

# Open to everybody who is signed in.
SIGNED_IN: Needs = ()


def fs(action: Action, resource: str) -> Needs:
    """An action on a repository or something in it."""
    return (Need(action, FS_PREFIX + resource),)


def auth(action: Action, resource: str) -> Needs:
    """An action on a user, a group or a policy."""
    return (Need(action, AUTH_PREFIX + resource),)


def everywhere(action: Action) -> Needs:
    """An action that is on nothing in particular, so only a policy for `*` allows it."""
    return (Need(action, ALL),)
