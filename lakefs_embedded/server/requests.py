"""A request for a handler: authenticated, with its parameters and body checked, and the catalog at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers

from dredge.errors import ConfigError
from lakefs_embedded.auth import Accounts, Permission, UnauthorizedError, User
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.server.authentication import Authenticator
from lakefs_embedded.server.errors import RequestError
from lakefs_embedded.server.namespaces import Namespaces
from lakefs_embedded.server.query import Query
from lakefs_embedded.server.settings import ServerSettings
from lakefs_embedded.server.usage import Usage


@dataclass(frozen=True, slots=True)
class Backend:
    """Objects shared by all handlers."""

    catalog: Catalog
    settings: ServerSettings
    accounts: Accounts
    authenticator: Authenticator
    namespaces: Namespaces
    usage: Usage


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request to the API.

    Attributes:
        body: JSON body, decoded and checked against the schema; {} for a call without one.
        user: authenticated user; None only for public calls.
        content: raw body of a call without a JSON schema: bytes if it is small, otherwise an iterator of
            chunks; blocks until each has arrived.
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
        """The server's catalog."""
        return self.backend.catalog

    @property
    def repository(self) -> str:
        """Repository name in the path."""
        return self.path["repository"]

    @property
    def branch(self) -> str:
        """Branch name in the path."""
        return self.path["branch"]

    @property
    def committer(self) -> str:
        """Committer of this request's commits."""
        if self.user is None:
            raise ConfigError("a public call cannot commit: it has no committer")
        return self.user.committer

    def allows(self, action: str, resource: str) -> bool:
        """Whether the user may perform an action on a resource (an ARN)."""
        return self.user is not None and self.backend.accounts.allows(self.user.name, action, resource)

    def require(self, *permissions: Permission) -> None:
        """Check permissions beyond the route table; raises UnauthorizedError."""
        if self.user is None:
            raise UnauthorizedError
        self.backend.accounts.check(self.user.name, *permissions)

    def flag(self, name: str) -> bool:
        """Return an optional boolean field of the body; False by default."""
        return self.body.get(name) is True

    def timestamp(self, name: str) -> datetime | None:
        """Return an optional time field of the body (Unix seconds), aware UTC; raises RequestError."""
        value = self.body.get(name)
        if value is None:
            return None
        try:
            return datetime.fromtimestamp(value, UTC)
        except (ValueError, OverflowError, OSError):
            raise RequestError.body(f'Error at "/{name}": {value} is not a valid time') from None
