"""A request as a handler sees it: checked parameters, a checked body, who asks, and the catalog to ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers

from dredge.auth import Accounts, Permission, UnauthorizedError, User
from dredge.errors import ConfigError
from dredge.graveler.catalog import Catalog
from dredge.server.accounts import Authenticator
from dredge.server.failures import RequestError
from dredge.server.query import Query
from dredge.server.settings import ServerSettings
from dredge.server.stores import Namespaces


@dataclass(frozen=True, slots=True)
class Backend:
    """What all handlers share."""

    catalog: Catalog
    settings: ServerSettings
    accounts: Accounts
    authenticator: Authenticator
    namespaces: Namespaces


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        backend: the catalog and what belongs to it.
        path: parameters of the path, decoded.
        query: parameters of the query.
        headers: of the request.
        body: decoded and checked JSON; {} for calls without a body.
        user: who asks; None only on calls that need no credentials.
        content: the raw body of calls without a JSON one: whole when it is small, else pieces, and reading
            those blocks.
    """

    backend: Backend
    path: Mapping[str, str]
    query: Query
    headers: Headers
    body: Any
    user: User | None
    content: bytes | Iterator[bytes]

    @property
    def catalog(self) -> Catalog:
        """The catalog."""
        return self.backend.catalog

    @property
    def repository(self) -> str:
        """Name of the repository in the path."""
        return self.path["repository"]

    @property
    def branch(self) -> str:
        """Name of the branch in the path."""
        return self.path["branch"]

    @property
    def committer(self) -> str:
        """Whose name goes into commits."""
        if self.user is None:
            raise ConfigError("a call that commits must not be open to everybody")
        return self.user.committer

    def allowed(self, action: str, resource: str) -> bool:
        """Whether who asks may do an action on a resource."""
        return self.user is not None and self.backend.accounts.allows(self.user.name, action, resource)

    def require(self, *needed: Permission) -> None:
        """Refuse unless who asks may do all of these; for what a route's table cannot name.

        Raises:
            UnauthorizedError: 401.
        """
        if self.user is None:
            raise UnauthorizedError
        self.backend.accounts.check(self.user.name, *needed)

    def flag(self, name: str) -> bool:
        """An optional boolean of the body; False when it is not there."""
        return self.body.get(name) is True

    def moment(self, name: str) -> datetime | None:
        """An optional time of the body (Unix seconds), aware UTC.

        Raises:
            RequestError: 400, outside of what a calendar holds.
        """
        value = self.body.get(name)
        if value is None:
            return None
        try:
            return datetime.fromtimestamp(value, UTC)
        except (ValueError, OverflowError, OSError):
            raise RequestError.body(f'Error at "/{name}": {value} is no time') from None
