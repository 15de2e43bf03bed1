"""Run a server, in the foreground (`serve`) or in a thread (`ThreadedServer`)."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import uvicorn

from dredge.errors import ConfigError, UnavailableError
from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.kv import Store
from lakefs_embedded.server.endpoint import FaultInjector
from lakefs_embedded.server.service import Clock, OpenNamespace, Service, utc_now
from lakefs_embedded.server.settings import Credentials, ServerSettings, split_listen

API_PATH = "/api/v1"
STOP_SECONDS = 10  # for requests in progress when the server is asked to stop
START_SECONDS = 30


def bind(listen: str) -> socket.socket:
    """Open the listening socket (`host:port`) before any store is opened; raises UnavailableError."""
    host, port = split_listen(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=512)
        # Connections inherit this. asyncio sets it only on sockets made with an explicit protocol, and
        # without it every response of two writes waits 40 ms for the client's delayed acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as problem:
        raise UnavailableError(f"cannot listen on {listen}: {problem.strerror or problem}") from problem


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket for clients on this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _server_of(service: Service) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            service.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            date_header=False,  # the application sends its own, by the service's clock
            timeout_keep_alive=120,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )


def serve(settings: ServerSettings, on_ready: Callable[[str], None] | None = None) -> None:
    """Run until SIGTERM or SIGINT; running requests are finished first, a second signal aborts them.

    `on_ready` is called with the server's URL once it accepts connections.
    """
    listening = bind(settings.listen)
    try:
        service = Service.build(settings)
    except BaseException:
        listening.close()
        raise
    try:
        server = _server_of(service)
        asyncio.run(_serve(server, listening, on_ready), loop_factory=server.config.get_loop_factory())
    finally:
        service.close()


async def _serve(
    server: uvicorn.Server, listening: socket.socket, on_ready: Callable[[str], None] | None
) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit, server.should_exit = server.should_exit, True

    # uvicorn's own handler ends the process by the signal; a graceful stop must exit with 0.
    server.capture_signals = _no_capture  # type: ignore[method-assign,assignment]
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    url = url_of(listening)
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    while not server.started and not running.done():
        await asyncio.sleep(0.005)
    if on_ready is not None and not running.done():
        on_ready(url)
    await running


def _no_capture() -> ExitStack:
    return ExitStack()


class ThreadedServer:
    """A server in a thread of this process; a context manager.

        with ThreadedServer(ServerSettings.for_folder(tmp_path)) as server:
            client = lakefs_sdk.client.LakeFSClient(host=server.endpoint, …)

    Args:
        settings: without credentials a key pair is generated.
        kv, open_namespace, clock, faults: see `Service.build`.
        keep_unset: generate no key pair; the server waits to be set up through the API.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        kv: Store | None = None,
        open_namespace: OpenNamespace | None = None,
        clock: Clock = utc_now,
        faults: FaultInjector | None = None,
        keep_unset: bool = False,
    ) -> None:
        if settings.credentials is None and not keep_unset:
            settings = replace(settings, credentials=Credentials.generate())
        self.settings = settings
        self.faults = FaultInjector() if faults is None else faults
        self._kv = kv
        self._open_namespace = open_namespace
        self._clock = clock
        self._service: Service | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """`http://host:port` of the running server."""
        return self._url

    @property
    def endpoint(self) -> str:
        """URL of the API, as clients expect it."""
        return self._url + API_PATH

    @property
    def access_key_id(self) -> str:
        """Access key id of the server's administrator."""
        return self._credentials.access_key_id

    @property
    def secret_access_key(self) -> str:
        """Secret access key of the server's administrator."""
        return self._credentials.secret_access_key

    @property
    def catalog(self) -> Catalog:
        """The catalog behind the API, for direct access in tests."""
        return self._running.backend.catalog

    @property
    def accounts(self) -> Accounts:
        """Users, access keys and permissions, for direct access in tests."""
        return self._running.backend.accounts

    @property
    def kv(self) -> Store:
        """The key-value store."""
        return self._running.kv

    def start(self) -> Self:
        """Start, and return once connections are accepted; raises UnavailableError."""
        listening = bind(self.settings.listen)
        self._url = url_of(listening)
        try:
            self._service = Service.build(
                self.settings,
                kv=self._kv,
                open_namespace=self._open_namespace,
                clock=self._clock,
                faults=self.faults,
            )
        except BaseException:
            listening.close()
            raise
        self._server = _server_of(self._service)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="embedded-lakefs", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self.stop()
                raise UnavailableError(f"the embedded server at {self._url} did not start")
            time.sleep(0.002)
        return self

    def stop(self) -> None:
        """Finish running requests, stop, and close the stores; idempotent."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(STOP_SECONDS + 5)
        if self._service is not None:
            self._service.close()
        self._server = self._thread = self._service = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _running(self) -> Service:
        if self._service is None:
            raise ConfigError("the embedded server is not running")
        return self._service

    @property
    def _credentials(self) -> Credentials:
        if self.settings.credentials is None:
            raise ConfigError("the embedded server has no credentials; it waits for its setup")
        return self.settings.credentials
