"""A proxy before a store that loses responses: the store executes the request, and the client gets no response."""

import http.client
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.support.http import HTTPServer

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class LosingProxy(HTTPServer):
    """Forwards requests, and drops the connection instead of some responses."""

    def __init__(self, upstream: str, loses: Callable[[str, str], bool]) -> None:
        self._upstream = urlsplit(upstream)
        self._loses = loses
        self.requests: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"{self.address}{self._upstream.path}"

    def handle(self, request: BaseHTTPRequestHandler) -> None:
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
