"""A request as a handler sees it: checked parameters, a checked body, who asks, and the catalog to ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, QueryParams

from dredge.errors import ConfigError
from dredge.graveler.catalog import Catalog
from dredge.server.accounts import Accounts, User
from dredge.server.failures import RequestError
from dredge.server.settings import ServerSettings
from dredge.server.stores import Namespaces

AMOUNT_DEFAULT = 100
AMOUNT_MAX = 1000

# What Go's ParseBool takes.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class Backend:
    """What all handlers share."""

    catalog: Catalog
    settings: ServerSettings
    accounts: Accounts
    namespaces: Namespaces


class Query:
    """Query parameters, each read with the check that the API's description gives it."""

    def __init__(self, params: QueryParams) -> None:
        self._params = params

    def text(self, name: str, default: str = "") -> str:
        """A text, or the default."""
        return self._params.get(name, default)

    def optional(self, name: str) -> str | None:
        """A text, or None when it is not there or empty."""
        return self._params.get(name) or None

    def required(self, name: str) -> str:
        """A text that must be there.

        Raises:
            RequestError: 400.
        """
        value = self._params.get(name)
        if value is None:
            raise RequestError.parameter(name, "query", "value is required but missing")
        return value

    def many(self, name: str) -> list[str]:
        """Every value of a parameter that may be given several times."""
        return self._params.getlist(name)

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean, in any of the spellings that Go takes.

        Raises:
            RequestError: 400.
        """
        value = self._params.get(name)
        if value is None:
            return default
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise RequestError.parameter(name, "query", f"value {value}: an invalid boolean")

    @property
    def amount(self) -> int:
        """How many results a page: 100 when not given, -1 or 0.

        Raises:
            RequestError: 400, below -1 or above 1000.
        """
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
        return self.user.name

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
