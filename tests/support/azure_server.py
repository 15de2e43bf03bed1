"""Azure Blob Storage for tests, in this process: features missing in the emulator, written after the REST documentation
("Blob service REST API").

Azurite has no versions, holds or throttling. This server has: Put Blob, Put Block, Put Block List, Copy Blob From
URL, Get Blob and its properties, Delete Blob, Blob Batch, List Blobs, Set Blob Tier, Get Account Information and Blob
Service Properties, of one account, with the keys' signatures unchecked. A test can replace any answer (`fault`).
"""

import re
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from dredge.storage import StorageOptions
from dredge.storage.options import AzureOptions
from tests.support.azure_state import Blob, Container, Refused
from tests.support.http import HTTPServer

ACCOUNT = "acct"
KEY = "c2VjcmV0LWtleQ=="

type Answer = tuple[int, dict[str, str], bytes]
type Query = dict[str, str]
type Headers = dict[str, str]
type Fault = Callable[[str, str, Query], Answer | None]
"""Called with method, path below the account and parameters; None answers as usual."""


class AzureServer(HTTPServer):
    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        self.requests: list[tuple[str, str, Query]] = []
        self.parts: list[tuple[str, str, Query]] = []
        self.fault: Fault = lambda *_: None
        self.page_rows = 5000

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in request.headers.items()}
        path, query = _split(request.path)
        self.requests.append((request.command, path, query))
        try:
            status, more, data = self.answer(request.command, path, query, headers, body)
        except ConnectionError:
            request.close_connection = True
            return
        request.send_response(status)
        for name, value in ({"x-ms-version": "2025-01-05"} | more).items():
            request.send_header(name, value)
        if "Content-Length" not in more:
            request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)

    @property
    def url(self) -> str:
        return f"{self.address}/{ACCOUNT}"

    @property
    def options(self) -> StorageOptions:
        return StorageOptions(azure=AzureOptions(ACCOUNT, KEY, endpoint_url=self.url))

    def container(self, versioned: bool = False, soft_delete_days: int = 0) -> str:
        name = f"lake-{uuid.uuid4().hex[:12]}"
        self.containers[name] = Container(versioned, soft_delete_days)
        return f"{self.url}/{name}"

    def held(self, uri: str) -> Container:
        return self.containers[uri.removeprefix(self.url).split("/")[1]]

    def answer(self, method: str, path: str, query: Query, headers: Headers, body: bytes) -> Answer:
        try:
            found = self.fault(method, path, query)
            return found if found is not None else self._route(method, path, query, headers, body)
        except Refused as error:
            xml = f"<?xml version='1.0'?><Error><Code>{error.code}</Code><Message>words</Message></Error>"
            return (
                error.status,
                {"x-ms-error-code": error.code, "Content-Type": "application/xml"},
                xml.encode(),
            )

    def _route(self, method: str, path: str, query: Query, headers: Headers, body: bytes) -> Answer:
        if query.get("restype") == "account":
            return 200, {"x-ms-is-hns-enabled": "false", "x-ms-sku-name": "Standard_LRS"}, b""
        if query.get("restype") == "service":
            return self._service()
        name, _, blob = path.partition("/")
        if name not in self.containers:
            raise Refused(404, "ContainerNotFound")
        container = self.containers[name]
        if query.get("comp") == "batch":
            return self._batch(body)
        if not blob:
            return _xml(self._list(container, query))
        return self._blob(method, container, blob, query, headers, body)

    def _service(self) -> Answer:
        days = max((item.soft_delete_days for item in self.containers.values()), default=0)
        kept = f"<Enabled>{str(days > 0).lower()}</Enabled>" + (f"<Days>{days}</Days>" if days else "")
        return _xml(
            f"<StorageServiceProperties><DeleteRetentionPolicy>{kept}</DeleteRetentionPolicy></StorageServiceProperties>"
        )

    def _blob(
        self, method: str, container: Container, name: str, query: Query, headers: Headers, body: bytes
    ) -> Answer:
        if method == "DELETE":
            container.delete(name, query.get("versionid", ""), headers.get("if-match", ""))
            return 202, {}, b""
        if method == "PUT":
            return self._put(container, name, query, headers, body)
        found = container.get(name, query.get("versionid", ""))
        if query.get("comp") == "blocklist":
            return _xml("<BlockList><UncommittedBlocks/></BlockList>")
        if found.tier == "Archive" and method == "GET":
            raise Refused(409, "BlobArchived")
        return _read(found, method, headers)

    def _put(self, container: Container, name: str, query: Query, headers: Headers, body: bytes) -> Answer:
        if query.get("comp") == "block":
            data = self._source(headers).data[_span(headers)] if "x-ms-copy-source" in headers else body
            container.blocks.setdefault(name, {})[query["blockid"]] = data
            return 201, {}, b""
        if query.get("comp") == "tier":
            found = container.get(name, query.get("versionid", ""))
            found.tier = headers["x-ms-access-tier"]
            return 200, {}, b""
        container.check(name, headers.get("if-match", ""), headers.get("if-none-match", ""))
        marks = {key[10:]: value for key, value in headers.items() if key.startswith("x-ms-meta-")}
        kind = headers.get("x-ms-blob-content-type", "application/octet-stream")
        made = Blob(name, body, marks, kind, tier=headers.get("x-ms-access-tier", ""))
        if query.get("comp") == "blocklist":
            staged = container.blocks.pop(name, {})
            made.data = b"".join(staged[item.text or ""] for item in ElementTree.fromstring(body))
        copied = "x-ms-copy-source" in headers
        if copied:
            source = self._source(headers)
            made.data, made.content_type = source.data, source.content_type
            made.metadata = made.metadata or dict(source.metadata)
        written = container.write(made)
        told = {"x-ms-copy-status": "success", "x-ms-copy-id": "1"} if copied else {}
        return 202 if copied else 201, _about(written) | told, b""

    def _source(self, headers: Headers) -> Blob:
        path, query = _split(urlsplit(headers["x-ms-copy-source"])._replace(scheme="", netloc="").geturl())
        name, _, blob = path.partition("/")
        found = self.containers[name].get(blob, query.get("versionid", ""))
        if found.tier == "Archive":
            raise Refused(409, "BlobArchived")
        if headers.get("x-ms-source-if-match", f'"{found.tag}"').strip('"') != found.tag:
            raise Refused(412, "SourceConditionNotMet")
        return found

    def _list(self, container: Container, query: Query) -> str:
        prefix, cut = query.get("prefix", ""), query.get("delimiter", "")
        low = max(query.get("startFrom", ""), query.get("marker", ""))
        with_versions = "versions" in query.get("include", "")
        rows = [
            blob
            for blob in container.listed(with_versions)
            if blob.name.startswith(prefix) and (with_versions or blob.name >= low)
        ]
        folders = {
            prefix + blob.name[len(prefix) :].split(cut)[0] + cut
            for blob in rows
            if cut and cut in blob.name[len(prefix) :]
        }
        rows = [blob for blob in rows if not cut or cut not in blob.name[len(prefix) :]]
        start = int(query.get("marker") or 0) if with_versions else 0
        end = start + min(self.page_rows, int(query.get("maxresults") or 5000))
        shown = "".join(_row(blob, with_versions) for blob in rows[start:end])
        shown += "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in sorted(folders))
        after = (str(end) if with_versions else escape(rows[end].name)) if end < len(rows) else ""
        return (
            f"<EnumerationResults><Blobs>{shown}</Blobs><NextMarker>{after}</NextMarker></EnumerationResults>"
        )

    def _batch(self, body: bytes) -> Answer:
        answers = []
        for part in body.split(body.split(b"\r\n", 1)[0])[1:-1]:
            number = re.search(rb"Content-ID: (\d+)", part)
            line = re.search(rb"^(DELETE) (\S+) HTTP", part, re.MULTILINE)
            assert number is not None
            assert line is not None
            found = re.search(rb"^If-Match: *(\S+)\r?$", part, re.MULTILINE | re.IGNORECASE)
            headers = {"if-match": found[1].decode()} if found else {}
            path, query = _split(line[2].decode())
            self.parts.append(("DELETE", path, query))
            try:
                status, more, _ = self.answer("DELETE", path, query, headers, b"")
            except ConnectionError:
                continue  # this part gets no answer
            code = f"x-ms-error-code: {more['x-ms-error-code']}\r\n" if "x-ms-error-code" in more else ""
            answers.append(
                f"--b\r\nContent-Type: application/http\r\nContent-ID: {number[1].decode()}\r\n\r\n"
                f"HTTP/1.1 {status} X\r\n{code}\r\n"
            )
        assert len(answers) <= 256, "the service takes 256 parts"
        return 202, {"Content-Type": "multipart/mixed; boundary=b"}, ("".join(answers) + "--b--").encode()


def _split(target: str) -> tuple[str, Query]:
    parts = urlsplit(target)
    path = unquote(parts.path.removeprefix(f"/{ACCOUNT}").removeprefix("/"))
    return path, dict(parse_qsl(parts.query, keep_blank_values=True))


def _about(blob: Blob) -> dict[str, str]:
    told = {"ETag": f'"{blob.tag}"', "Last-Modified": blob.modified, "x-ms-blob-type": "BlockBlob"}
    told |= {f"x-ms-meta-{name}": value for name, value in blob.metadata.items()}
    told |= {"Content-Type": blob.content_type}
    if blob.version:
        told["x-ms-version-id"] = blob.version
        told |= {"x-ms-is-current-version": "true"} if blob.current else {}
    if blob.tier:
        told["x-ms-access-tier"] = blob.tier
    return told


def _read(blob: Blob, method: str, headers: Headers) -> Answer:
    span = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("x-ms-range", headers.get("range", "")))
    told, size = _about(blob), len(blob.data)
    if method == "HEAD" or span is None:
        return 200, told | {"Content-Length": str(size)}, blob.data
    first, last = int(span[1]), min(int(span[2] or size), size - 1)
    if first >= size:
        raise Refused(416, "InvalidRange")
    return 206, told | {"Content-Range": f"bytes {first}-{last}/{size}"}, blob.data[first : last + 1]


def _span(headers: Headers) -> slice:
    first, last = headers["x-ms-source-range"].removeprefix("bytes=").split("-")
    return slice(int(first), int(last) + 1)


def _row(blob: Blob, with_version: bool) -> str:
    name = escape(blob.name)
    if re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", blob.name):
        name, encoded = quote(blob.name, safe=""), ' Encoded="true"'
    else:
        encoded = ""
    version = f"<VersionId>{blob.version}</VersionId>" if with_version and blob.version else ""
    version += "<IsCurrentVersion>true</IsCurrentVersion>" if with_version and blob.current else ""
    tier = f"<AccessTier>{blob.tier or 'Hot'}</AccessTier>"
    tier += "" if blob.tier else "<AccessTierInferred>true</AccessTierInferred>"
    tier += f"<ArchiveStatus>{blob.archive_status}</ArchiveStatus>" if blob.archive_status else ""
    marks = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in blob.metadata.items())
    return (
        f"<Blob><Name{encoded}>{name}</Name>{version}<Properties><Creation-Time>{blob.modified}</Creation-Time>"
        f"<Last-Modified>{blob.modified}</Last-Modified><Etag>{blob.tag}</Etag>"
        f"<Content-Length>{len(blob.data)}</Content-Length><Content-Type>{blob.content_type}</Content-Type>"
        f"<BlobType>BlockBlob</BlobType>{tier}</Properties><Metadata>{marks}</Metadata></Blob>"
    )


def _xml(text: str) -> Answer:
    return 200, {"Content-Type": "application/xml"}, f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()
