"""The host names accepted by a server of pages.

A page of another site can make its own name resolve to 127.0.0.1 (DNS rebinding). The browser then treats the answers
of `dredge ui` as that site's, and its scripts may read them. The `Host` of such a request is the other site's name.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any

from fastapi.responses import PlainTextResponse

LOOPBACK = ("localhost", "127.0.0.1", "::1")
MISDIRECTED = 421

type _Scope = MutableMapping[str, Any]
type _Receive = Callable[[], Awaitable[Any]]
type _Send = Callable[[Any], Awaitable[None]]
type _App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


def find_names(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Return the names of a server: loopback, its listening address, and further names.

    Args:
        host: listening address or name. An address for all interfaces adds the names of the machine.
    """
    machine = (socket.gethostname(), socket.getfqdn()) if listens_everywhere(host) else ()
    return frozenset(map(_plain, (*LOOPBACK, host, *machine, *more)))


def listens_everywhere(host: str) -> bool:
    """Return whether a listening host means every address of the machine."""
    return _plain(host) in ("", "0.0.0.0", "::")


class OwnNames:
    """Answers only requests with one of the server's names as `Host`, on any port.

    Args:
        addresses: accept every IP address as well: another site cannot make a name of it.
    """

    def __init__(self, app: _App, names: Collection[str], addresses: bool = False) -> None:
        self._app = app
        self._names = names
        self._addresses = addresses

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer a request, or refuse it with 421."""
        if scope["type"] not in ("http", "websocket") or self._is_own(scope):
            await self._app(scope, receive, send)
            return
        text = "This host name is not accepted. Add it with --name, or open the printed address."
        await PlainTextResponse(text, MISDIRECTED)(scope, receive, send)

    def _is_own(self, scope: _Scope) -> bool:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1:
            return False
        host = _plain(_without_port(given[0]))
        return host in self._names or (self._addresses and _is_address(host))


def _without_port(text: str) -> str:
    """Return the host of a `Host` header; an address in brackets is IPv6."""
    return text[: text.index("]") + 1] if text.startswith("[") and "]" in text else text.partition(":")[0]


def _plain(host: str) -> str:
    return host.strip().strip("[]").rstrip(".").lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
