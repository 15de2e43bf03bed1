"""A scripted web server, for clients of servers with odd answers."""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True)
class Asked:
    """A request as received by the server; the path is decoded."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Script:
    endpoint: str = ""  # URL
    # gives status and body of a request; a body that is no bytes is sent as JSON; None drops the connection
    answer: Callable[[Asked], tuple[int, Any] | None] = lambda _: (404, {"message": "invalid API endpoint"})
    asked: list[Asked] = field(default_factory=list)  # every request
    headers: dict[str, str] = field(default_factory=dict)  # additional headers of every answer


@contextmanager
def scripted_server() -> Iterator[Script]:
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two packets, and the second must not wait

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            asked = Asked(
                self.command,
                unquote(parts.path),
                {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()},
                {key.lower(): value for key, value in self.headers.items()},
                json.loads(raw) if raw else None,
            )
            script.asked.append(asked)
            found = script.answer(asked)
            if found is None:
                self.close_connection = True
                self.connection.close()
                return
            status, body = found
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in script.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _serve

        def log_message(self, *_: Any) -> None:
            pass

        def finish(self) -> None:
            with suppress(OSError, ValueError):  # the script dropped the connection
                super().finish()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    script.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class HTTPServer(ABC):
    """A server on a free port, from the beginning of a `with` block to its end, each request in a thread of its own."""

    @abstractmethod
    def handle(self, request: BaseHTTPRequestHandler) -> None:
        """Read a request's body, and answer it or close the connection."""

    def __enter__(self) -> Self:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                server.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"
