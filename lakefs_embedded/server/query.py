"""Query parameters, validated by the API's specification."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from lakefs_embedded.server.errors import RequestError

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
