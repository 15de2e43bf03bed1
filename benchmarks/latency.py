"""Servers with latency: a proxy that delays each request, and logs its begin and end.

    python -m benchmarks.latency PORT TARGET_PORT MILLISECONDS LOG    prints a line, then serves

A request starts with a request line at the begin of the client's bytes. This holds for clients with one
request at a time on a connection, as all of ours. The delay takes no CPU time, and requests on different
connections are delayed in parallel.

The longest chain of a step is the largest number of requests, each of which begins after the end of the
previous one.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

LATENCY = "DREDGE_BENCH_LATENCY_MS"
"""Environment variable with the delay of each request in milliseconds; unset for no proxy."""
WHOLE = "whole run"
LOGS = Path(__file__).resolve().parent.parent / ".dredge" / "bench" / "requests"
"""Folder with the request logs of the last run, a file for each server."""
_ENDPOINTS = ("AWS_ENDPOINT_URL", "LAKECTL_SERVER_ENDPOINT_URL")
_CHUNK = 1 << 18
_LINE = re.compile(rb"([A-Z]{3,7} /[!-~]*) HTTP/1\.")
type Span = tuple[float, float]
"""Begin and end, in seconds since the epoch."""
type Request = tuple[float, float, str]
"""Begin, end, and method with path."""


@dataclass(slots=True)
class _Connection:
    """One connection of a client.

    Attributes:
        begun: start of the current request; None before the first one.
        answered: time of the answer's last byte; None before it.
        asked: method and path.
    """

    begun: float | None = None
    answered: float | None = None
    asked: str = ""


class Proxy:
    """Forwards bytes, each request with a delay.

    Args:
        port: of the proxy.
        target: port of the server on this machine.
        seconds: delay.
        log: request log: begin and end.
    """

    def __init__(self, port: int, target: int, seconds: float, log: Path) -> None:
        self._port = port
        self._target = target
        self._seconds = seconds
        self._log = log.open("a", buffering=1)

    async def serve(self) -> None:
        """Print a line, then serve forever."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", self._port, limit=_CHUNK)
        print("ready", flush=True)
        await server.serve_forever()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state = _Connection()
        with suppress(OSError):
            back, forth = await asyncio.open_connection("127.0.0.1", self._target, limit=_CHUNK)
            up = asyncio.ensure_future(self._ask(reader, forth, state))
            with suppress(OSError):
                await self._answer(back, writer, state)
            up.cancel()
            forth.close()
        self._note(state)
        writer.close()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: _Connection
    ) -> None:
        while data := await reader.read(_CHUNK):
            if asked := _LINE.match(data):
                self._note(state)
                state.begun, state.answered, state.asked = time.time(), None, asked[1].decode()
                await asyncio.sleep(self._seconds)
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: _Connection
    ) -> None:
        while data := await reader.read(_CHUNK):
            state.answered = time.time()
            writer.write(data)
            await writer.drain()

    def _note(self, state: _Connection) -> None:
        if state.begun is not None and state.answered is not None:
            self._log.write(f"{state.begun:.6f} {state.answered:.6f} {state.asked}\n")
            state.begun = None


@cache
def free_port(name: str) -> int:
    """Return the same port for each server of a name, if it is free: the owner record of a namespace contains the
    URL."""
    kept = LOGS.parent / "ports" / name
    for wanted in (int(kept.read_text()) if kept.exists() else 0, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", wanted))
            port: int = probe.getsockname()[1]
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(str(port))
            return port
    raise OSError("this machine has no free port")


@contextmanager
def later(port: int, milliseconds: float, log: Path) -> Iterator[int]:
    """Run a proxy before a server on this machine; yields the proxy's port.

    Args:
        port: of the server.
        milliseconds: delay of each request.
        log: request log.
    """
    own = free_port(log.name)
    words = [str(own), str(port), str(milliseconds), str(log)]
    command = [sys.executable, "-m", "benchmarks.latency", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield own
        finally:
            process.terminate()


@contextmanager
def behind(environ: Mapping[str, str]) -> Iterator[tuple[dict[str, str], Callable[..., dict[str, Any]]]]:
    """Put the store and the lakeFS server of a run behind proxies if `LATENCY` is set.

    Args:
        environ: environment variables of both.

    Returns:
        Environment variables with the proxies, and a function for the figures of a run by the times of its
        steps.
    """
    if LATENCY not in os.environ:
        yield dict(environ), lambda times: {}
        return
    milliseconds, found = float(os.environ[LATENCY]), dict(environ)
    LOGS.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        logs: list[Path] = []
        for name in _ENDPOINTS:
            if name not in environ:
                continue
            place = urlsplit(environ[name])
            assert place.port is not None
            logs.append(LOGS / name)
            logs[-1].unlink(missing_ok=True)
            port = stack.enter_context(later(place.port, milliseconds, logs[-1]))
            found[name] = urlunsplit(place._replace(netloc=f"127.0.0.1:{port}"))

        def figures(times: Mapping[str, Span]) -> dict[str, Any]:
            requests = read_requests(logs)
            chains = by_step(requests, {**times, WHOLE: (0.0, inf)})
            return {"latency_ms": milliseconds, "chains": chains}

        yield found, figures


def read_requests(logs: Iterable[Path]) -> list[Request]:
    """Return all requests in some logs."""
    lines = (line.split(" ", 2) for log in logs if log.exists() for line in log.read_text().splitlines())
    return [(float(words[0]), float(words[1]), words[2]) for words in lines if len(words) == 3]


def longest_chain(requests: Iterable[Request]) -> list[str]:
    """Return the longest chain of requests, each of which begins after the end of the previous one."""
    found, last = list[str](), -inf
    for begin, end, asked in sorted(requests, key=lambda request: request[1]):
        if begin >= last:
            found.append(asked)
            last = end
    return found


def by_step(requests: Iterable[Request], steps: Mapping[str, Span]) -> dict[str, dict[str, Any]]:
    """Return the number of requests, the length of the longest chain, and its requests, of each step; a request counts
    for the step in which it began."""
    told = list(requests)
    found: dict[str, dict[str, Any]] = {}
    for step, (first, last) in steps.items():
        of_step = [request for request in told if first <= request[0] < last]
        path = longest_chain(of_step)
        found[step] = {"requests": len(of_step), "chain": len(path), "path": path}
    return found


if __name__ == "__main__":
    proxy = Proxy(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000, Path(sys.argv[4]))
    asyncio.run(proxy.serve())
