"""A load balancer for tests: each new connection goes to the next of some servers."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from lakefs_embedded.server import ThreadedServer


@contextmanager
def balanced(servers: Sequence[ThreadedServer]) -> Iterator[str]:
    """Spread connections over servers in turn; gives the endpoint of all together."""
    ports = itertools.cycle([urlsplit(server.endpoint).port for server in servers])
    threads: list[threading.Thread] = []
    opened: list[socket.socket] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = listening.accept()
                opened.append(client)
                server = socket.create_connection(("127.0.0.1", next(ports) or 0))
                opened.append(server)
                for source, target in ((client, server), (server, client)):
                    start(_pump, source, target)

    def start(work: Callable[..., None], *arguments: socket.socket) -> None:
        threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        threads[-1].start()

    start(accept)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        for found in (listening, *opened):
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(10)
        for found in (listening, *opened):
            found.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
