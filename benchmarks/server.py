"""The embedded lakeFS under small requests: uploads and stats a second, by an owner and by a user with
policies.

    ./run bench server [--clients 8] [--seconds 5] [--user owner] [--user policies]

The server is a separate process, started with `dredge serve` on a new folder (SQLite, local objects). The
clients are connections of another process with minimal work: each sends a request, reads the answer, sends
the next. Goal: at least 500 uploads and 2,000 stats a second on two cores with 8 clients.
"""

import asyncio
import base64
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psutil

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "bench" / "server"
REPOSITORY = "bench"
BODY = b"x" * 100
USERS = ("owner", "policies")


@dataclass(frozen=True)
class Load:
    """Result of one round.

    Attributes:
        user: owner or policies.
        name: upload or stat.
        requests: number of answers.
        seconds: duration.
        median_ms: of one request.
        p99_ms: of one request.
        cpu_us: the server's CPU time for one request; nearly independent of other load on the machine.
    """

    user: str
    name: str
    requests: int
    seconds: float
    median_ms: float
    p99_ms: float
    cpu_us: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        port: on this machine.
        pair: the owner's key pair.
        process: of the server.
    """

    port: int
    pair: tuple[str, str]
    process: psutil.Process

    def call(self, method: str, path: str, body: object = None) -> object:
        """Send a request as the owner, for the preparation; returns the decoded answer."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://127.0.0.1:{self.port}/api/v1{path}", data, method=method)
        request.add_header("Authorization", authorization(self.pair))
        request.add_header("Content-Type", "application/json")
        try:
            with urlopen(request) as answer:
                text = answer.read()
        except HTTPError as problem:
            raise RuntimeError(f"{method} {path}: {problem.code} {problem.read()!r}") from None
        return json.loads(text) if text.startswith(b"{") else None


def authorization(pair: tuple[str, str]) -> str:
    """Return the header of basic authentication."""
    return "Basic " + base64.b64encode(":".join(pair).encode()).decode()


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Run `dredge serve` on a folder."""
    pair = ("AKIAIOSFODNN7BENCHMK", "benchmark-secret-key-without-any-rights")
    environ = os.environ | {
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": pair[0],
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": pair[1],
    }
    log = folder.with_suffix(".log").open("w")
    start = "from dredge.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        start,
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--data",
        str(folder),
    ]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start; see {log.name}")
        yield Served(urlsplit(json.loads(line)["url"]).port or 0, pair, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def run(clients: int, seconds: float, users: tuple[str, ...] = USERS) -> list[Load]:
    """Measure both loads for each kind of user, one after the other on one server."""
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True)
    loads: list[Load] = []
    with serving(STATE / "lake") as server:
        namespace = f"local://{STATE}/lake/objects/{REPOSITORY}"
        server.call("POST", "/repositories", {"name": REPOSITORY, "storage_namespace": namespace})
        for user in users:
            pair = server.pair if user == "owner" else _restricted(server)
            loads += [_measure(server, user, pair, name, clients, seconds) for name in ("upload", "stat")]
    shutil.rmtree(STATE, ignore_errors=True)
    return loads


def _restricted(server: Served) -> tuple[str, str]:
    """Create a user with rights from two groups and its own policy with wildcards and a denial."""
    arn = f"arn:lakefs:fs:::repository/{REPOSITORY}/object/"
    statements = [
        {"effect": "allow", "action": ["fs:*Object*"], "resource": arn + "folder/*"},
        {"effect": "deny", "action": ["fs:*"], "resource": arn + "*/locked/*"},
    ]
    server.call("POST", "/auth/users", {"id": "user"})
    server.call("POST", "/auth/policies", {"id": "folder", "statement": statements})
    server.call("PUT", "/auth/users/user/policies/folder")
    for group in ("Developers", "Viewers"):
        server.call("PUT", f"/auth/groups/{group}/members/user")
    made = server.call("POST", "/auth/users/user/credentials")
    assert isinstance(made, dict)
    return made["access_key_id"], made["secret_access_key"]


def _measure(
    server: Served, user: str, pair: tuple[str, str], name: str, clients: int, seconds: float
) -> Load:
    header = f"Host: bench\r\nAuthorization: {authorization(pair)}\r\nAccept: application/json\r\n"
    root = f"/api/v1/repositories/{REPOSITORY}"

    def upload(client: int, number: int) -> bytes:
        path = f"{root}/branches/main/objects?path=folder/{user}-{client}/{number}"
        head = f"POST {path} HTTP/1.1\r\n{header}Content-Type: application/octet-stream\r\n"
        return f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY

    def stat(client: int, number: int) -> bytes:
        path = f"{root}/refs/main/objects/stat?path=folder/{user}-{client}/{number % 20}"
        return f"GET {path} HTTP/1.1\r\n{header}\r\n".encode()

    make, good = (upload, b"201") if name == "upload" else (stat, b"200")
    used, began = sum(server.process.cpu_times()[:2]), time.perf_counter()
    times = asyncio.run(_drive(server.port, clients, seconds, make, good))
    elapsed = time.perf_counter() - began
    used = sum(server.process.cpu_times()[:2]) - used
    return Load(
        user,
        name,
        len(times),
        elapsed,
        statistics.median(times) * 1000,
        statistics.quantiles(times, n=100)[98] * 1000,
        used / len(times) * 1e6,
    )


async def _drive(
    port: int, clients: int, seconds: float, make: Callable[[int, int], bytes], good: bytes
) -> list[float]:
    """Let clients send requests until the end; returns the seconds of each request."""
    until = time.perf_counter() + seconds
    times: list[float] = []

    async def client(index: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number = 0
        while (began := time.perf_counter()) < until:
            writer.write(make(index, number))
            head = await reader.readuntil(b"\r\n\r\n")
            if head[9:12] != good:
                raise RuntimeError(head.decode())
            place = head.lower().index(b"content-length:") + 15
            await reader.readexactly(int(head[place : head.index(b"\r\n", place)]))
            times.append(time.perf_counter() - began)
            number += 1
        writer.close()

    await asyncio.gather(*(client(index) for index in range(clients)))
    return times
