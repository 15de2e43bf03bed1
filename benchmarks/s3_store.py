"""An S3 store for benchmarks: versitygw, a compiled server on a folder, with its requests counted from its
log.

A slow store would hide the cost of Dredge, so this one is written in Go; it supports start-after,
DeleteObjects, multipart uploads, If-None-Match and If-Match. `go install` brings it into `.dredge/tools` at
first use.

Its objects are files in a folder, so a lake is copied into a bucket and listed without S3. The folder is in
memory if possible, and is removed at the end; a folder in `DREDGE_BENCH_S3` is kept.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".dredge" / "tools" / "bin"
STATE = ROOT / ".dredge" / "bench"
MEMORY = Path("/dev/shm")
KEPT = "DREDGE_BENCH_S3"
MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIABENCHMARK", "AWS_SECRET_ACCESS_KEY": "benchmark-secret"}
SERVER_KEYS = {"AWS_ACCESS_KEY_ID": "AKIALAKEFS", "AWS_SECRET_ACCESS_KEY": "benchmark-secret-of-lakefs"}
"""Key pair of the lakeFS server, so that its requests are counted separately."""
LOG = "DREDGE_BENCH_S3_LOG"
"""Environment variable with the path of the running store's log."""
KINDS = {
    "s3_GetObject": "get",
    "s3_HeadObject": "head",
    "s3_PutObject": "put",
    "s3_ListObjectsV2": "list",
    "s3_DeleteObjects": "bulk_delete",
    "s3_DeleteObject": "delete",
}
# Places in a line of the log: owner, bucket, two of time, address, requester, id, operation, key, URI.
_REQUESTER, _OPERATION, _KEY, _URI = 5, 7, 8, 9
ETAG = "user.etag"
START_SECONDS = 30
OWN, RUN_FOLDERS = "_lakefs/retention/gc/dredge/", "_lakefs/retention/gc/unified/"
"""Where Dredge keeps its files, in a repository's folder."""


def program() -> Path:
    """Return the path of versitygw, and install it if missing; exits with one line on failure."""
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
    """Counts requests by kind in a growing log.

    Args:
        log: of the store.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = 0
        self._rest = b""
        self._counts: Counter[tuple[str, str]] = Counter()

    def counts(self) -> Counter[str]:
        """Return all requests so far by kind; those of the lakeFS server have the prefix `lakefs`."""
        return by_kind(self.places())

    def places(self) -> Counter[tuple[str, str]]:
        """Return the same by kind and by `name_place`."""
        with self._log.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        told = (self._told(line.decode(errors="replace")) for line in lines)
        self._counts.update(request for request in told if request is not None)
        return Counter(self._counts)

    def _told(self, line: str) -> tuple[str, str] | None:
        """Return kind and place of a log line's request; None for another line."""
        fields = line.split(" ")
        if len(fields) <= _OPERATION or not fields[2].startswith("["):
            return None
        kind = KINDS.get(fields[_OPERATION], fields[_OPERATION].removeprefix("s3_"))
        own = fields[_REQUESTER] == SERVER_KEYS["AWS_ACCESS_KEY_ID"]
        return f"lakefs {kind}" if own else kind, _asked_for(fields)


def by_kind(places: Mapping[tuple[str, str], int]) -> Counter[str]:
    """Requests by kind alone."""
    counts: Counter[str] = Counter()
    for (kind, _), count in places.items():
        counts[kind] += count
    return counts


def by_place(places: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Return requests by place and kind, without the lakeFS server's."""
    found: dict[str, dict[str, int]] = {}
    for (kind, place), count in sorted(places.items()):
        if not kind.startswith("lakefs "):
            found.setdefault(place, {})[kind] = count
    return found


def name_place(key: str) -> str:
    """Return the kind of object of a key or a listing's prefix.

    Args:
        key: in its bucket.
    """
    name = key.partition("/")[2]  # behind the repository's folder
    if re.fullmatch("_lakefs/[0-9a-f]{64}", name):
        return "ranges and metaranges"
    if name.startswith(OWN):
        return "/".join(name.removeprefix(OWN).split("/")[:2])
    if name.startswith(RUN_FOLDERS):
        file = name.rpartition("/")[2]
        return (
            f"runs: {file}"
            if file.endswith(".json") and "/_" not in name.replace(f"/{file}", "")
            else "runs: rows"
        )
    return name.partition("/")[0] + "/"


def _asked_for(fields: Sequence[str]) -> str:
    """Return the key of a log line, or the prefix of a listing."""
    if fields[_KEY:] and fields[_KEY] != "-":
        return name_place(fields[_KEY])
    query = parse_qs(urlsplit(fields[_URI]).query) if fields[_URI:] else {}
    return name_place(query["prefix"][0]) if "prefix" in query else "bucket"


class S3Store:
    """A running store.

    Args:
        port: of the server.
        pid: of its process.
        folder: of its buckets.
        log: request log.
    """

    def __init__(self, port: int, pid: int, folder: Path, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.pid = pid
        self._folder = folder
        place = {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", LOG: str(log)}
        self.environ, self.server_environ = {**KEYS, **place}, {**SERVER_KEYS, **place}

    def bucket(self, name: str) -> Path:
        """Return the folder of a bucket, created if missing."""
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@contextmanager
def s3_store() -> Iterator[S3Store]:
    """Run a store in a separate process."""
    command = program()
    STATE.mkdir(parents=True, exist_ok=True)
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
    """Return a folder with fast files and extended attributes."""
    try:
        with NamedTemporaryFile(dir=MEMORY) as file:
            os.setxattr(file.name, ETAG, b"")
        return MEMORY
    except OSError:
        return STATE


def _users(folder: Path) -> Path:
    """Add the lakeFS server's key pair."""
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
    """Write an object's file with its entity tag."""
    path.write_bytes(content)
    tag = hashlib.md5(content, usedforsecurity=False).hexdigest()
    os.setxattr(path, ETAG, f'"{tag}"'.encode())
