"""Doors for tests: see every request before it is served, and answer it badly on purpose.

A hook is called in a worker thread with what is known of the request, so it may wait, or work on the lake
through the catalog. It returns None to let the request go on, or a fault. With no hooks none of this runs.

    with server.hooks.adding(lambda seen: Drop() if seen.operation == "prepare_commits" else None): …
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Seen:
    """A request on its way in.

    Attributes:
        operation: name of the handler, such as `prepare_uncommitted` or `get_object`.
        method: of HTTP.
        path: parameters of the path (repository, branch, …).
        query: raw query string.
        number: counts all requests of the server, from 1.
    """

    operation: str
    method: str
    path: Mapping[str, str]
    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer this instead of serving; the request has no effect."""

    status: int
    message: str = "injected fault"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection without a byte.

    Attributes:
        served: do what was asked first, so that only the answer is lost.
    """

    served: bool = False


type Fault = Answer | Drop
type Hook = Callable[[Seen], Fault | None]


class Hooks:
    """The hooks of one server; can change while it runs."""

    def __init__(self) -> None:
        self._hooks: tuple[Hook, ...] = ()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def next_number(self) -> int:
        """Count a request."""
        return next(self._numbers)

    def ask(self, seen: Seen) -> Fault | None:
        """Show a request to each hook, oldest first; the first fault counts."""
        for hook in self._hooks:
            fault = hook(seen)
            if fault is not None:
                return fault
        return None

    @contextmanager
    def adding(self, hook: Hook) -> Iterator[None]:
        """Have a hook for the length of a block."""
        with self._lock:
            self._hooks = (*self._hooks, hook)
        try:
            yield
        finally:
            with self._lock:
                self._hooks = tuple(each for each in self._hooks if each is not hook)
