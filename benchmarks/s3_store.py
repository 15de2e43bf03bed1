"""An S3 store for benchmarks: versitygw, a compiled server on a folder, with its requests counted from its log.

A store that is slower than what is measured hides it, so this one is written in Go; it has pages that start after
a name, DeleteObjects, uploads in parts, and writes under If-None-Match and If-Match. It is a tool of the benchmarks
only: `go install` brings it into `.dredge/tools` when it is first wanted.

Its objects are the files of a folder, so a lake is put into a bucket by links, and looked at, past S3.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".dredge" / "tools" / "bin"
FOLDER = ROOT / ".dredge" / "bench" / "s3"
MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIABENCHMARK", "AWS_SECRET_ACCESS_KEY": "benchmark-secret"}
LOG = "DREDGE_BENCH_S3_LOG"
"""Names a variable with the path of the running store's log."""
KINDS = {
    "s3_GetObject": "get",
    "s3_HeadObject": "head",
    "s3_PutObject": "put",
    "s3_ListObjectsV2": "list",
    "s3_DeleteObjects": "bulk_delete",
    "s3_DeleteObject": "delete",
}
_OPERATION = (
    7  # its field in a line of the log: owner, bucket, two of time, address, requester, id, operation
)
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


class Requests:
    """Counts requests by kind as the log grows.

    Args:
        log: of the store.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = 0
        self._rest = b""
        self._counts: Counter[str] = Counter()

    def counts(self) -> Counter[str]:
        """All requests that the store has answered so far."""
        with self._log.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            fields = line.split(b" ", _OPERATION + 1)
            if len(fields) > _OPERATION and fields[2].startswith(b"["):
                name = fields[_OPERATION].decode()
                self._counts[KINDS.get(name, name.removeprefix("s3_"))] += 1
        return Counter(self._counts)


class S3Store:
    """A running store.

    Args:
        port: where it listens.
        pid: of its process.
        log: where it writes a line for each request.
    """

    def __init__(self, port: int, pid: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.pid = pid
        self.log = log
        self.environ = {**KEYS, "AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", LOG: str(log)}

    def bucket(self, name: str) -> Path:
        """The folder of a bucket; it is made when it is not there."""
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@contextmanager
def s3_store() -> Iterator[S3Store]:
    """Run a store in a process of its own."""
    command = program()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = FOLDER.with_name(f"s3-{port}.log")
    env = os.environ | {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "VGW_REGION": "us-east-1"}
    env["ROOT_SECRET_KEY"] = KEYS["AWS_SECRET_ACCESS_KEY"]
    words = ["--port", f"127.0.0.1:{port}", "--access-log", str(log), "--keep-alive", "--quiet"]
    with (
        log.with_suffix(".out").open("wb") as said,
        subprocess.Popen([command, *words, "posix", FOLDER], env=env, stdout=said, stderr=said) as process,
    ):
        try:
            _wait(port, process)
            yield S3Store(port, process.pid, log)
        finally:
            process.terminate()
    log.unlink(missing_ok=True)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"versitygw did not start: see {FOLDER.with_name('s3-' + str(port) + '.out')}")


def fill(source: Path, target: Path, without: tuple[str, ...]) -> int:
    """Link every file below a folder that a bucket does not have into it, as the store itself would have put it.

    The store never writes into a file, it puts another in its place; so the source stays as it is.

    Args:
        source: folder.
        target: folder in a bucket.
        without: beginnings of names to leave out.

    Returns:
        How many files were new.
    """
    added = 0
    for parent, _, names in os.walk(source):
        inside = Path(parent).relative_to(source)
        wanted = [name for name in names if not (inside / name).as_posix().startswith(without)]
        if not wanted:
            continue
        (target / inside).mkdir(parents=True, exist_ok=True)
        for name in set(wanted).difference(os.listdir(target / inside)):
            link(Path(parent, name), target / inside / name)
            added += 1
    return added


def link(source: Path, target: Path) -> None:
    """Make a file an object: beside the link it needs its entity tag."""
    with suppress(FileExistsError):
        os.link(source, target)
    try:
        os.getxattr(target, "user.etag")
    except OSError:
        tag = hashlib.md5(source.read_bytes(), usedforsecurity=False).hexdigest()
        os.setxattr(target, "user.etag", f'"{tag}"'.encode())
