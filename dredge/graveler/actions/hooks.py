"""A hook that can be run, of whatever type.

    ActionHook (what the file says)  →  make_hook  →  Hook.run(event, run, log)

Source: lakeFS pkg/actions/hook.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.variables import Redaction
from dredge.graveler.catalog.events import Event

type ApiCall = Callable[[str, str, Mapping[str, str], object], tuple[int, bytes]]
"""`call(method, path, query, JSON body or None)` makes a call of the API with the rights of the user whose request
is being handled; the path begins with `/repositories`. Returns status and body.
"""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """What hooks may do.

    Attributes:
        environ: environment variables; see `variables`.
        lua_net_http: whether Lua scripts may make HTTP requests.
        lua_seconds: a Lua script is ended after this time.
        poll_seconds: interval at which a DAG is asked for its state.
        call: makes calls of the API; None where there is no server.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    lua_net_http: bool = False
    lua_seconds: float = 600
    poll_seconds: float = 5
    call: ApiCall | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The run that a hook is part of.

    Attributes:
        id: id of the run.
        before: for an event after a change the id of the run before it.
        action: name of the action.
        hook: id of the hook in it.
        user: name of the user whose request is being handled.
    """

    id: str
    before: str
    action: str
    hook: str
    user: str


LOG_CHARACTERS_MAX = 4 << 20


class Log:
    """What a hook writes while it runs; kept until the run is over. Beyond the maximum it is cut."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = LOG_CHARACTERS_MAX

    def write(self, text: str) -> None:
        """Add text."""
        if self._left <= 0:
            return
        self._parts.append(text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            self._parts.append("\n… (cut)\n")

    def text(self) -> str:
        """All of it."""
        return "".join(self._parts)


class Hook(Protocol):
    """A hook that can be run."""

    @property
    def redaction(self) -> Redaction:
        """Hides its secrets."""

    def run(self, event: Event, run: Run, log: Log) -> None:
        """Run it.

        Raises:
            HookError: it failed.
        """


def required(properties: Mapping[str, Any], name: str) -> str:
    """A property that must be text.

    Raises:
        HookError: it is missing, empty or something else.
    """
    if name not in properties:
        raise HookError(f"key {name}: missing key in properties", failed=False)
    value = properties[name]
    if not isinstance(value, str):
        raise HookError(f"value of {name} is not of type string: wrong value type", failed=False)
    if not value:
        raise HookError(f"value of {name} is empty: missing key in properties", failed=False)
    return value
