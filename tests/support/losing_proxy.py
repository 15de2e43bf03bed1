"""A proxy before a store that loses answers: the store does what it is asked, and nobody hears of it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class LosingProxy:
    """Passes requests on, and drops the connection instead of some answers.

    Args:
        upstream: URL of the store.
        loses: called with method and path of each request once the store has done it; true loses the answer.

    Attributes:
        requests: method and path of each.
    """

    def __init__(self, upstream: str, loses: Callable[[str, str], bool]) -> None:
        self._upstream = urlsplit(upstream)
        self._loses = loses
        self.requests: list[tuple[str, str]] = []

    def __enter__(self) -> LosingProxy:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                proxy._pass_on(self)

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
    def url(self) -> str:
        """Of the store as it is seen through the proxy."""
        return f"http://127.0.0.1:{self._http.server_port}{self._upstream.path}"

    def _pass_on(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection(str(self._upstream.hostname), self._upstream.port, timeout=30)
        try:
            upstream.request(request.command, request.path, body, dict(request.headers.items()))
            answer = upstream.getresponse()
            data = answer.read()
        finally:
            upstream.close()
        self.requests.append((request.command, request.path))
        if self._loses(request.command, request.path):
            request.close_connection = True
            return
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
