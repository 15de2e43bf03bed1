"""An S3 store for benchmarks: versitygw, a compiled server on a folder, with its requests counted from its log.

A store that is slower than what is measured hides it, so this one is written in Go; it has pages that start after
a name, DeleteObjects, uploads in parts, and writes under If-None-Match and If-Match. It is a tool of the benchmarks
only: `go install` brings it into `.dredge/tools` when it is first wanted.

Its objects are the files of a folder, so a lake is put into a bucket, and looked at, past S3. The folder is in memory
where the system allows that, and is gone at the end; one that `DREDGE_BENCH_S3` names is on disk as well as you
choose, and stays for the next time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from benchmarks.requests import LOG, SERVER_KEY

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".dredge" / "tools" / "bin"
STATE = ROOT / ".dredge" / "bench"
MEMORY = Path("/dev/shm")
KEPT = "DREDGE_BENCH_S3"
MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIABENCHMARK", "AWS_SECRET_ACCESS_KEY": "benchmark-secret"}
SERVER_KEYS = {"AWS_ACCESS_KEY_ID": SERVER_KEY, "AWS_SECRET_ACCESS_KEY": "benchmark-secret-of-lakefs"}
"""The lakeFS server asks the store under a name of its own, so that its requests are counted apart."""
ETAG = "user.etag"
START_SECONDS = 30


def program() -> Path:
    """Find versitygw, or install it; ends the program with one line when that is impossible."""
    known = TOOLS / "versitygw"
    if known.exists():
        return known
    if found := shutil.which("versitygw"):
        return Path(found)
    if not shutil.which("go"):
        raise SystemExit(f"the S3 benchmarks need Go (https://go.dev/dl) to run `go install {MODULE}`")
    TOOLS.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["go", "install", MODULE], env=os.environ | {"GOBIN": str(TOOLS)}, check=False)
    if done.returncode:
        raise SystemExit(f"`go install {MODULE}` failed: the S3 benchmarks need the Go modules' proxy")
    return known


class S3Store:
    """A running store.

    Args:
        port: where it listens.
        pid: of its process.
        folder: of its buckets.
        log: where it writes a line for each request.
    """

    def __init__(self, port: int, pid: int, folder: Path, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.pid = pid
        self._folder = folder
        place = {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", LOG: str(log)}
        self.environ, self.server_environ = {**KEYS, **place}, {**SERVER_KEYS, **place}

    def bucket(self, name: str) -> Path:
        """The folder of a bucket; it is made when it is not there."""
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@contextmanager
def s3_store() -> Iterator[S3Store]:
    """Run a store in a process of its own."""
    command = program()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ExitStack() as stack:
        own = Path(stack.enter_context(TemporaryDirectory(prefix="dredge-bench-", dir=_place())))
        buckets = Path(os.environ.get(KEPT) or own / "buckets")
        buckets.mkdir(parents=True, exist_ok=True)
        said = stack.enter_context((STATE / "s3.log").open("wb"))
        words = [
            "--iam-dir",
            _users(own),
            "--port",
            f"127.0.0.1:{port}",
            "--access-log",
            own / "requests.log",
        ]
        words += ["--keep-alive", "--quiet", "posix", buckets]
        env = os.environ | {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "VGW_REGION": "us-east-1"}
        env["ROOT_SECRET_KEY"] = KEYS["AWS_SECRET_ACCESS_KEY"]
        process = stack.enter_context(subprocess.Popen([command, *words], env=env, stdout=said, stderr=said))
        stack.callback(process.terminate)
        _wait(port, process)
        yield S3Store(port, process.pid, buckets, own / "requests.log")


def _place() -> Path:
    """Where files can be made fast and can have attributes."""
    try:
        with NamedTemporaryFile(dir=MEMORY) as file:
            os.setxattr(file.name, ETAG, b"")
        return MEMORY
    except OSError:
        return STATE


def _users(folder: Path) -> Path:
    """Let the lakeFS server in."""
    access, secret = SERVER_KEYS.values()
    account = {"access": access, "secret": secret, "role": "admin"}
    (folder / "users.json").write_text(json.dumps({"accessAccounts": {access: account}}))
    return folder


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"versitygw did not start: see {STATE / 's3.log'}")


def put(path: Path, content: bytes) -> None:
    """Write an object as the store itself would have put it: a file with its entity tag."""
    path.write_bytes(content)
    tag = hashlib.md5(content, usedforsecurity=False).hexdigest()
    os.setxattr(path, ETAG, f'"{tag}"'.encode())
