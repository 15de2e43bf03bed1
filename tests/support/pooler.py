"""A pooler for PostgreSQL with one server session, lent to a client for one transaction at a time.

Like PgBouncer with `pool_mode = transaction` and a pool of one: a client's leftovers in its session are visible to the
next client.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

_ENCRYPTION_REQUESTS = (80877103, 80877104)
_PROTOCOL = 196608


@contextlib.contextmanager
def pooler(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    user, database = parts.username or "postgres", parts.path.lstrip("/")
    with socket.socket(socket.AF_UNIX) as server, socket.create_server(("127.0.0.1", 0)) as listener:
        server.connect(f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432")
        words = b"user\0" + user.encode() + b"\0database\0" + database.encode() + b"\0\0"
        server.sendall(struct.pack("!II", len(words) + 8, _PROTOCOL) + words)
        session = _Session(server, b"".join(_answer(server)))
        threading.Thread(target=session.accept, args=(listener,), daemon=True).start()
        try:
            yield f"postgresql://{user}@127.0.0.1:{listener.getsockname()[1]}/{database}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


class _Session:
    def __init__(self, server: socket.socket, greeting: bytes) -> None:
        self._server = server
        self._greeting = greeting
        self._lent = threading.Lock()

    def accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, contextlib.suppress(OSError):
            while _startup(client) in _ENCRYPTION_REQUESTS:
                client.sendall(b"N")
            client.sendall(self._greeting)
            while (first := _message(client))[:1] != b"X":
                with self._lent:
                    self._transaction(client, first)

    def _transaction(self, client: socket.socket, message: bytes) -> None:
        idle = False
        try:
            while True:
                self._server.sendall(message)
                if message[:1] in (b"Q", b"S"):
                    answer = b"".join(_answer(self._server))
                    client.sendall(answer)
                    idle = answer.endswith(b"Z\0\0\0\5I")
                    if idle:
                        return
                message = _message(client)
        finally:
            if not idle:
                self._server.sendall(b"Q" + struct.pack("!I", 13) + b"ROLLBACK\0")
                list(_answer(self._server))


def _answer(server: socket.socket) -> Iterator[bytes]:
    while True:
        message = _message(server)
        yield message
        if message[:1] == b"Z":
            return


def _message(end: socket.socket) -> bytes:
    head = _exactly(end, 5)
    return head + _exactly(end, struct.unpack("!I", head[1:])[0] - 4)


def _startup(client: socket.socket) -> int:
    length, code = struct.unpack("!II", _exactly(client, 8))
    _exactly(client, length - 8)
    return int(code)


def _exactly(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = end.recv(count - len(data))
        if not part:
            raise ConnectionError("the other side closed")
        data += part
    return data
