"""A request for a handler: authenticated, with its parameters and body checked, and the catalog at hand."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, QueryParams

from dredge.errors import ConfigError
from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.auth.model import User
from lakefs_embedded.auth.permissions import Permission
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.errors import UnauthorizedError
from lakefs_embedded.server.authentication import Authenticator
from lakefs_embedded.server.namespaces import Namespaces
from lakefs_embedded.server.responses import RequestError
from lakefs_embedded.server.settings import ServerSettings
from lakefs_embedded.server.usage import Usage

AMOUNT_DEFAULT = 100
AMOUNT_MAX = 1000

# Spellings that Go's strconv.ParseBool accepts.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class Query:
    """The query parameters of one request."""

    def __init__(self, params: QueryParams) -> None:
        self._params = params

    def text(self, name: str, default: str = "") -> str:
        """Return a text parameter; the default if it is missing."""
        return self._params.get(name, default)

    def optional(self, name: str) -> str | None:
        """Return a text parameter; None if it is missing or empty."""
        return self._params.get(name) or None

    def required(self, name: str) -> str:
        """Return a required text parameter; raises RequestError."""
        value = self._params.get(name)
        if value is None:
            raise RequestError.parameter(name, "query", "value is required but missing")
        return value

    def many(self, name: str) -> list[str]:
        """Return all values of a repeatable parameter."""
        return self._params.getlist(name)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean parameter, in any spelling of Go; raises RequestError."""
        value = self._params.get(name)
        if value is None:
            return default
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise RequestError.parameter(name, "query", f"value {value}: an invalid boolean")

    @property
    def amount(self) -> int:
        """Results per page (-1 to 1000); 100 if it is missing, -1 or 0; raises RequestError."""
        value = self._params.get("amount")
        if value is None:
            return AMOUNT_DEFAULT
        try:
            number = int(value)
        except ValueError:
            raise RequestError.parameter("amount", "query", f"value {value}: an invalid integer") from None
        if number > AMOUNT_MAX:
            raise RequestError.parameter("amount", "query", f"number must be at most {AMOUNT_MAX}")
        if number < -1:
            raise RequestError.parameter("amount", "query", "number must be at least -1")
        return number if number > 0 else AMOUNT_DEFAULT

    @property
    def paging(self) -> dict[str, Any]:
        """`prefix`, `after` and `amount`, as the catalog's listings take them."""
        return {"prefix": self.text("prefix"), "after": self.text("after"), "amount": self.amount}


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
