"""Query parameters, each read with the check that the API's description gives it."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from dredge.server.failures import RequestError

AMOUNT_DEFAULT = 100
AMOUNT_MAX = 1000

# What Go's ParseBool takes.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


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
