"""An S3 server in this process, for tests."""

from __future__ import annotations

import functools
import logging
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dredge.storage import StorageOptions


@dataclass(frozen=True)
class TestBucket:
    __test__ = False

    options: StorageOptions  # how to reach it
    bucket: str  # its name
    client: Any  # a plain boto3 client, for what tests do without going through `dredge.storage`

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}"

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def put(self, *keys: str, data: bytes = b"x") -> None:
        for key in keys:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=data)


@functools.cache
def quicken_moto() -> None:
    """Cache two slow computations of moto: the methods of a class, and parsed times."""
    from moto.core import responses, serialize

    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    serialize.parse_to_aware_datetime = functools.lru_cache(1 << 16)(serialize.parse_to_aware_datetime)


@contextmanager
def moto_server() -> Iterator[StorageOptions]:
    with running_moto("s3") as (_, url):
        yield StorageOptions(
            endpoint_url=url,
            region="us-east-1",
            access_key_id="AKIAIOSFODNN7EXAMPLE",
            secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        )


@contextmanager
def moto_server_for(options: StorageOptions) -> Iterator[StorageOptions]:
    """Run moto's S3 server on a free port, for any signing client; returns the options with its address."""
    with running_moto("s3") as (server, url):
        inner, wanted = server.app, f"Credential={options.access_key_id}/"

        def ask_for_the_key(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
            if wanted in environ.get("HTTP_AUTHORIZATION", ""):
                return inner(environ, start)
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>not signed with the key</Message></Error>"]

        server.app = ask_for_the_key
        yield replace(options, endpoint_url=url)


@contextmanager
def running_moto(service: str) -> Iterator[tuple[Any, str]]:
    """Run one service of moto, and yield its server and address. The server of all looks for the service of each
    request, among the names in a folder that it lists twice."""
    from moto.moto_server.threaded_moto_server import MotoRequestHandler
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import make_server

    quicken_moto()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = create_backend_app(service)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_bucket(options: StorageOptions, versioned: bool = False) -> TestBucket:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=options.endpoint_url,
        region_name=options.region,
        aws_access_key_id=options.access_key_id,
        aws_secret_access_key=options.secret_access_key,
    )
    name = f"lake-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    if versioned:
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return TestBucket(options, name, client)


@contextmanager
def moto_s3() -> Iterator[TestBucket]:
    with moto_server() as options:
        yield make_bucket(options)


type Answer = tuple[int, str]
"""Status and XML body."""


class ScriptedS3:
    """An HTTP server with scripted answers, for answers not given by a correct server."""

    def __init__(
        self,
        answer: Callable[[str, str, bytes], Answer],
        tls: ssl.SSLContext | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._answer = answer
        self._more = more or {}
        self._tls = tls
        self.requests: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []

    def __enter__(self) -> ScriptedS3:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two packets, and the second must not wait

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                scripted.requests.append((self.command, self.path, body))
                scripted.headers.append({name.lower(): value for name, value in self.headers.items()})
                try:
                    status, text = scripted._answer(self.command, self.path, body)
                except ConnectionError:
                    self.close_connection = True
                    return
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("ETag", '"e"')
                for name, value in scripted._more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def options(self) -> StorageOptions:
        return StorageOptions(
            endpoint_url=f"http{'s' if self._tls else ''}://127.0.0.1:{self._server.server_port}",
            region="us-east-1",
            access_key_id="AKIAIOSFODNN7EXAMPLE",
            secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        )


def deleted_keys(body: bytes) -> list[str]:
    from xml.etree import ElementTree

    return [element.text or "" for element in ElementTree.fromstring(body).iterfind("{*}Object/{*}Key")]
