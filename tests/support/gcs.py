"""Google Cloud Storage for tests: a third-party emulator, and a small server for its missing features.

The emulator (fake-gcs-server, as a process) has no conditions on deletes and rewrites, no rewrites in steps and no
multipart uploads. The server here was written from the service's documentation; both pass the same contract, and a test
can replace any answer of this server (`fault`).
"""

import base64
import gzip
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from demo.stores.fake_gcs import fake_gcs_process, make_bucket
from dredge.storage import StorageOptions
from dredge.storage.options import GcsOptions
from tests.support.gcs_state import Bucket, Generation, Refused
from tests.support.http import HTTPServer

__all__ = ["Answer", "Fault", "GcsServer", "Query", "fake_gcs", "make_gcs_bucket"]

type Answer = tuple[int, dict[str, str], bytes]
type Query = dict[str, str]
type Fault = Callable[[str, str, Query], Answer | None]


class GcsServer(HTTPServer):
    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.requests: list[tuple[str, str]] = []
        self.parts: list[tuple[str, str]] = []
        self.fault: Fault = lambda _method, _path, _query: None
        self.page_rows = 1000
        self.rewrite_bytes = 1 << 40
        self.packs = False
        self._tokens: dict[str, int] = {}

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.command, request.path))
        try:
            status, more, data = self.answer(request.command, request.path, headers, body)
        except ConnectionError:
            request.close_connection = True
            return
        is_object = status in {200, 206} and "alt=media" in request.path
        if self.packs and not is_object and "gzip" in headers.get("accept-encoding", ""):
            more, data = {**more, "Content-Encoding": "gzip"}, gzip.compress(data)
        request.send_response(status)
        for name, value in more.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)

    @property
    def url(self) -> str:
        return self.address

    @property
    def options(self) -> StorageOptions:
        return StorageOptions(gcs=GcsOptions(endpoint_url=self.url, retry_seconds=1))

    def bucket(self, **more: Any) -> str:
        name = f"lake-{uuid.uuid4().hex[:12]}"
        self.buckets[name] = Bucket(**more)
        return f"gs://{name}"

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        path, query = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query, keep_blank_values=True))
        try:
            found = self.fault(method, path, query)
            return found if found is not None else self._route(method, path, query, headers, body)
        except Refused as error:
            about = {"code": error.status, "message": error.message, "errors": [{"reason": error.reason}]}
            return _json({"error": about}, error.status)

    def _route(self, method: str, path: str, query: Query, headers: dict[str, str], body: bytes) -> Answer:
        if path == "/batch/storage/v1":
            return self._batch(headers, body)
        if path.startswith("/upload/storage/v1/b/"):
            return self._upload(unquote(path.split("/")[5]), query, headers, body)
        if path.startswith("/storage/v1/b"):
            return self._object(method, [unquote(part) for part in path.split("/")[4:]], query, headers, body)
        _, bucket, name = path.split("/", 2)
        return self._xml(method, self._bucket(unquote(bucket)), unquote(name), query, headers, body)

    def _bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            raise Refused(404, "notFound", "The specified bucket does not exist.")
        return self.buckets[name]

    def _object(
        self, method: str, parts: list[str], query: Query, headers: dict[str, str], body: bytes
    ) -> Answer:
        bucket = self._bucket(parts[0])
        if len(parts) == 1:
            kept = {"retentionDurationSeconds": str(bucket.soft_delete_seconds)}
            return _json({"versioning": {"enabled": bucket.versioned}, "softDeletePolicy": kept})
        if len(parts) == 2:
            return self._list(parts[0], bucket, query)
        if len(parts) > 3:
            return self._rewrite(bucket, parts, query, body)
        if method == "DELETE":
            bucket.delete(parts[2], query.get("ifGenerationMatch"), query.get("generation"))
            return 204, {}, b""
        found = bucket.get(parts[2], query.get("generation"))
        return _media(found.data, headers) if query.get("alt") == "media" else _json(found.resource(parts[0]))

    def _list(self, name: str, bucket: Bucket, query: Query) -> Answer:
        low, high, prefix = query.get("startOffset", ""), query.get("endOffset", ""), query.get("prefix", "")
        rows = [
            item
            for item in bucket.listed(query.get("versions") == "true")
            if item.name.startswith(prefix) and item.name >= low and (not high or item.name < high)
        ]
        cut = query.get("delimiter")
        folders: set[str] = set()
        if cut:
            folders = {
                prefix + item.name[len(prefix) :].split(cut)[0] + cut
                for item in rows
                if cut in item.name[len(prefix) :]
            }
            rows = [item for item in rows if cut not in item.name[len(prefix) :]]
        start = int(query.get("pageToken") or 0)
        end = start + min(self.page_rows, int(query.get("maxResults") or 1000))
        told: dict[str, Any] = {
            "kind": "storage#objects",
            "items": [item.resource(name) for item in rows[start:end]],
        }
        if folders and not start:
            told["prefixes"] = sorted(folders)
        if end < len(rows):
            told["nextPageToken"] = str(end)
        return _json(told)

    def _rewrite(self, source: Bucket, parts: list[str], query: Query, body: bytes) -> Answer:
        target = self._bucket(parts[5])
        found = source.get(parts[2], query.get("sourceGeneration"))
        token = query.get("rewriteToken") or uuid.uuid4().hex
        done = self._tokens[token] = self._tokens.get(token, 0) + self.rewrite_bytes
        target.check(parts[7], query.get("ifGenerationMatch"))
        told: dict[str, Any] = {"kind": "storage#rewriteResponse", "objectSize": str(len(found.data))}
        if done < len(found.data):
            return _json({**told, "done": False, "rewriteToken": token, "totalBytesRewritten": str(done)})
        about = json.loads(body) if body else dict(found.about)
        if "destinationKmsKeyName" in query:
            about["kmsKeyName"] = query["destinationKmsKeyName"] + "/cryptoKeyVersions/1"
        made = Generation(parts[7], found.data, about, composed=found.composed)
        target.write(made, query.get("ifGenerationMatch"))
        return _json({**told, "done": True, "resource": made.resource(parts[5])})

    def _upload(self, name: str, query: Query, headers: dict[str, str], body: bytes) -> Answer:
        bucket = self._bucket(name)
        head, data = _related(headers["content-type"], body)
        expected = head.pop("md5Hash", None)
        if (
            expected
            and expected != base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        ):
            raise Refused(400, "invalid", "Provided MD5 hash doesn't match calculated MD5 hash.")
        made = Generation(head.pop("name"), data, head)
        return _json(bucket.write(made, query.get("ifGenerationMatch")).resource(name))

    def _batch(self, headers: dict[str, str], body: bytes) -> Answer:
        answers = []
        parts = _parts(headers["content-type"], body)
        assert len(parts) <= 100, "the service takes 100 parts"
        for number, part in parts:
            line = part.lstrip().split(b"\r\n", 1)[0].decode().split(" ")
            self.parts.append((line[0], line[1]))
            try:
                status, _, data = self.answer(line[0], line[1], {}, b"")
            except ConnectionError:
                continue  # this part gets no answer
            answers.append(
                f"--b\r\nContent-Type: application/http\r\nContent-ID: <response-{number}>\r\n\r\n"
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n\r\n".encode()
                + data
                + b"\r\n"
            )
        return 200, {"Content-Type": "multipart/mixed; boundary=b"}, b"".join(answers) + b"--b--\r\n"

    def _xml(
        self, method: str, bucket: Bucket, name: str, query: Query, headers: dict[str, str], body: bytes
    ) -> Answer:
        if method == "PUT":  # by a signed URL
            bucket.write(Generation(name, body, {}))
            return 200, {}, b""
        return _media(bucket.get(name).data, headers)


def _json(value: Any, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _media(data: bytes, headers: dict[str, str]) -> Answer:
    span = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
    if span is None:
        return 200, {}, data
    if int(span[1]) >= len(data):
        return 416, {}, b""
    return 206, {}, data[int(span[1]) : int(span[2]) + 1]


def _related(content_type: str, body: bytes) -> tuple[dict[str, Any], bytes]:
    boundary = b"--" + content_type.partition("boundary=")[2].encode()
    _, head, media, _ = body.split(boundary)
    return json.loads(head.partition(b"\r\n\r\n")[2]), media.partition(b"\r\n\r\n")[2][:-2]


def _parts(content_type: str, body: bytes) -> list[tuple[str, bytes]]:
    message = BytesParser().parsebytes(f"Content-Type: {escape(content_type)}\r\n\r\n".encode() + body)
    found = []
    for part in message.walk():
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            found.append((part["Content-ID"].strip("<>"), content))
    return found


@contextmanager
def fake_gcs() -> Iterator[StorageOptions]:
    with fake_gcs_process(None, None) as (options, _):
        yield options


def make_gcs_bucket(options: StorageOptions, versioned: bool = False) -> str:
    """Make a new bucket in the emulator; returns its URI."""
    return make_bucket(options, f"lake-{uuid.uuid4().hex[:12]}", versioned)
