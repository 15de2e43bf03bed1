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

Filling and looking go past HTTP, so that a lake of 100,000 objects is there in seconds. Pages of a listing are
written here, from moto's own objects: moto needs half a second of processor time for one of 1,000 keys, a hundred
times what a store needs, and nothing else would show beside it.
"""

from __future__ import annotations

import json
import os
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote
from xml.sax.saxutils import escape

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
        self._pages = Pages()
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        """Answer one request."""
        path = environ["PATH_INFO"]
        if path.startswith(CONTROL):
            return self._control(path.removeprefix(CONTROL), environ, respond)
        kind = kind_of(environ["REQUEST_METHOD"], environ.get("QUERY_STRING", ""))
        with self._lock:
            self._counts[kind] += 1
        if kind != "list":
            return self._app(environ, respond)
        with self._lock:
            body = self._pages.page(path.strip("/"), environ["QUERY_STRING"])
        respond("200 OK", [("Content-Type", "application/xml")])
        return [body]

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


class Pages:
    """Answers to ListObjectsV2; the names of a bucket are sorted again only when there are others."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[frozenset[str], list[str]]] = {}

    def _sorted(self, bucket: str) -> list[str]:
        keys = _bucket(bucket).keys
        known, names = self._names.get(bucket, (frozenset(), []))
        if known != keys.keys():
            names = sorted(keys)
            self._names[bucket] = (frozenset(names), names)
        return names

    def page(self, bucket: str, query: str) -> bytes:
        """Write one page; names are compared as text, which is the order of bytes for names in ASCII."""
        asked = {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        after = asked.get("continuation-token") or asked.get("start-after", "")
        limit = int(asked.get("max-keys", "1000"))
        names, objects = self._sorted(bucket), _bucket(bucket).keys
        at = max(bisect_left(names, prefix), bisect_right(names, after))
        spell = quote if asked.get("encoding-type") == "url" else escape
        rows: list[str] = []
        last = ""
        while at < len(names) and names[at].startswith(prefix) and len(rows) < limit:
            name = names[at]
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                folder = name[: cut + len(delimiter)]
                last = folder + "\U0010ffff"
                at = bisect_left(names, last)
                rows.append(f"<CommonPrefixes><Prefix>{spell(folder)}</Prefix></CommonPrefixes>")
                continue
            found = objects[name]
            rows.append(
                f"<Contents><Key>{spell(name)}</Key><LastModified>{found.last_modified:%Y-%m-%dT%H:%M:%S}.000Z"
                f"</LastModified><ETag>{escape(found.etag)}</ETag><Size>{found.size}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
            last = name
            at += 1
        more = at < len(names) and names[at].startswith(prefix)
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket}</Name><Prefix>{spell(prefix)}</Prefix><MaxKeys>{limit}</MaxKeys>"
            f"<KeyCount>{len(rows)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
            f"{''.join(rows)}</ListBucketResult>"
        ).encode()


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
