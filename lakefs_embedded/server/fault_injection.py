"""Fault injection for tests: inspect every request before it is served, and fail it on purpose.

A rule is called in a worker thread with a description of the request, so it may block or change the repository
through the catalog. It returns a fault, or None to serve the request.

    with server.faults.injecting(
        lambda request: DropConnection() if request.operation == "prepare_commits" else None
    ): …
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """A request not served yet.

    Attributes:
        operation: name of the handler, such as `prepare_uncommitted` or `get_object`.
        path: path parameters (repository, branch, …).
        number: sequence number of the request on this server, from 1.
    """

    operation: str
    method: str
    path: Mapping[str, str]
    query: str
    number: int


@dataclass(frozen=True, slots=True)
class InjectedResponse:
    """Fault: send this response instead of serving the request, which has no effect.

    Attributes:
        headers: additional response headers; the only headers if `body` is given.
        body: raw body in place of the JSON error; None sends the error.
    """

    status: int
    message: str = "injected fault"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class DropConnection:
    """Fault: close the connection without sending a byte; `served`: after serving the request."""

    served: bool = False


type Fault = InjectedResponse | DropConnection
type FaultRule = Callable[[IncomingRequest], Fault | None]


class FaultInjector:
    """The fault rules of one server; thread-safe, and may change while the server runs."""

    def __init__(self) -> None:
        self._rules: tuple[FaultRule, ...] = ()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def next_number(self) -> int:
        """Return the next request's sequence number."""
        return next(self._numbers)

    def fault_for(self, request: IncomingRequest) -> Fault | None:
        """Call the rules in the order they were added and return the first fault."""
        for rule in self._rules:
            fault = rule(request)
            if fault is not None:
                return fault
        return None

    @contextmanager
    def injecting(self, rule: FaultRule) -> Iterator[None]:
        """Apply a rule while the block runs."""
        with self._lock:
            self._rules = (*self._rules, rule)
        try:
            yield
        finally:
            with self._lock:
                self._rules = tuple(each for each in self._rules if each is not rule)
