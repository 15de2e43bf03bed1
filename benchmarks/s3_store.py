"""An S3 store for benchmarks: moto's server in a process of its own, filled from a folder, counting requests.

    python -m benchmarks.s3_store        prints its port, serves until it is told to stop

Beside S3 it answers, behind `/_bench/`:

    POST fill {"bucket", "prefix", "folder", "without"}
                                               take in every file below the folder that is not there yet, but
                                               those whose name begins with one of `without`
    POST drop {"bucket", "prefix"}             forget every key below a prefix
    POST plant {"bucket", "prefix", "count"}   put so many small objects
    GET  keys?bucket=…&prefix=…                all keys, straight from its memory
    GET  requests                              how many requests of each kind it has answered

Filling and looking go past HTTP, so that a lake of 100,000 objects is there in seconds.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

ACCOUNT = "123456789012"
CONTROL = "/_bench/"

type Respond = Callable[..., Any]


class Counting:
    """The WSGI application around moto's: answers control calls, counts the others.

    Args:
        app: moto's.
    """

    def __init__(self, app: Callable[[dict[str, Any], Respond], Iterable[bytes]]) -> None:
        self._app = app
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        """Answer one request."""
        path = environ["PATH_INFO"]
        if path.startswith(CONTROL):
            return self._control(path.removeprefix(CONTROL), environ, respond)
        with self._lock:
            self._counts[kind_of(environ["REQUEST_METHOD"], environ.get("QUERY_STRING", ""))] += 1
        return self._app(environ, respond)

    def _control(self, name: str, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        asked = json.loads(body) if body else {}
        query = {key: values[0] for key, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        match name:
            case "fill":
                value: Any = fill(asked["bucket"], asked["prefix"], Path(asked["folder"]), asked["without"])
            case "drop":
                value = drop(asked["bucket"], asked["prefix"])
            case "plant":
                value = plant(asked["bucket"], asked["prefix"], asked["count"])
            case "keys":
                value = [key for key in _bucket(query["bucket"]).keys if key.startswith(query["prefix"])]
            case _:
                with self._lock:
                    value = dict(self._counts)
        respond("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(value).encode()]


def kind_of(method: str, query: str) -> str:
    """Name the kind of an S3 request."""
    names = {item.partition("=")[0] for item in query.split("&")}
    if method == "GET" and "list-type" in names:
        return "list"
    if method == "POST" and "delete" in names:
        return "bulk_delete"
    return method.lower()


def _bucket(name: str) -> Any:
    from moto.s3.models import s3_backends

    return s3_backends[ACCOUNT]["aws"].buckets[name]


def fill(bucket: str, prefix: str, folder: Path, without: list[str]) -> int:
    """Put every file below a folder that is not there yet; gives how many."""
    from moto.s3.models import s3_backends

    backend = s3_backends[ACCOUNT]["aws"]
    if bucket not in backend.buckets:
        backend.create_bucket(bucket, "us-east-1")
    present = set(backend.buckets[bucket].keys)
    added = 0
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        key = f"{prefix}/{name}"
        if key not in present and not name.startswith(tuple(without)):
            backend.put_object(bucket, key, path.read_bytes())
            added += 1
    return added


def drop(bucket: str, prefix: str) -> int:
    """Forget every key below a prefix; gives how many."""
    keys = _bucket(bucket).keys
    doomed = [key for key in keys if key.startswith(prefix)]
    for key in doomed:
        del keys[key]
    return len(doomed)


def plant(bucket: str, prefix: str, count: int) -> int:
    """Put so many small objects."""
    from moto.s3.models import s3_backends

    for number in range(count):
        s3_backends[ACCOUNT]["aws"].put_object(bucket, f"{prefix}/{number:07d}", b"x")
    return count


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def main() -> None:
    """Serve until the process is ended."""
    import logging

    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Counting(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
