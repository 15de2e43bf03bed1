"""Requests to the S3 gateway: real signatures, real handlers, the same catalogs as the API's.

A move is one request or a few, in the process of some server. Requests refused by the gateway have no effect.
"""

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from starlette.responses import Response

from dredge.errors import DredgeError
from lakefs_embedded.gateway.app import Gateway, _Progress
from lakefs_embedded.gateway.errors import S3Error
from lakefs_embedded.gateway.sigv4 import TIME_FORMAT, Claim, RawRequest, sign, string_to_sign
from tests.simulation.clock import instant
from tests.simulation.history import Client
from tests.simulation.lakefs import OWNER, Server
from tests.simulation.scheduler import Scheduler
from tests.simulation.writers import BRANCHES, CONTENTS, PATHS, Draw

HOST = "s3.simulated"
_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def _draw(*values: tuple[Any, ...]) -> Draw:
    return lambda chance: tuple(chance.choice(each) for each in values)


def _many(chance: random.Random) -> tuple[Any, ...]:
    return chance.choice(BRANCHES), tuple(chance.sample(PATHS, 2))


S3_DRAWS: dict[str, tuple[int, Draw]] = {
    "s3 put": (3, _draw(BRANCHES, PATHS, CONTENTS)),
    "s3 put if new": (1, _draw(BRANCHES, PATHS, CONTENTS)),
    "s3 copy": (2, _draw(BRANCHES, PATHS, BRANCHES, PATHS)),
    "s3 delete": (2, _draw(BRANCHES, PATHS)),
    "s3 delete many": (1, _many),
    "s3 begin parts": (1, _draw(BRANCHES, PATHS, CONTENTS)),
    "s3 copy part": (1, _draw(BRANCHES, PATHS, BRANCHES, PATHS)),
    "s3 complete parts": (1, _draw((0, -1))),
    "s3 abort parts": (1, _draw((0, -1))),
}
"""Every kind of move: its frequency, and the drawing of its arguments."""


@dataclass
class S3Client(Client):
    scheduler: Scheduler  # gives the time of signatures
    repository: str  # its name, the bucket
    serve: Callable[[Callable[[Server], Any]], Any]  # has a server do something
    # uploads in parts that were begun: branch, path, id, and the ETag of their only part
    uploads: list[tuple[str, str, str, str]] = field(default_factory=list)
    refusals = (DredgeError, S3Error)

    def _s3_put(self, branch: str, path: str, content: bytes) -> None:
        self._ask("PUT", branch, path, body=content)

    def _s3_put_if_new(self, branch: str, path: str, content: bytes) -> None:
        self._ask("PUT", branch, path, body=content, headers={"if-none-match": "*"})

    def _s3_copy(self, branch: str, path: str, source_branch: str, source: str) -> None:
        self._ask("PUT", branch, path, headers=self._source(source_branch, source))

    def _s3_delete(self, branch: str, path: str) -> None:
        self._ask("DELETE", branch, path)

    def _s3_delete_many(self, branch: str, paths: tuple[str, ...]) -> None:
        listed = "".join(f"<Object><Key>{branch}/{path}</Key></Object>" for path in paths)
        self._ask("POST", query={"delete": ""}, body=f"<Delete>{listed}</Delete>".encode())

    def _s3_begin_parts(self, branch: str, path: str, content: bytes) -> None:
        self._begin(branch, path, body=content)

    def _s3_copy_part(self, branch: str, path: str, source_branch: str, source: str) -> None:
        self._begin(branch, path, headers=self._source(source_branch, source))

    def _begin(
        self, branch: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        begun = self._ask("POST", branch, path, query={"uploads": ""})
        upload = _text(begun, "UploadId")
        part = self._ask("PUT", branch, path, {"uploadId": upload, "partNumber": "1"}, body, headers)
        etag = part.headers.get("etag") or _text(part, "ETag")
        self.uploads.append((branch, path, upload, etag))

    def _s3_complete_parts(self, number: int) -> None:
        if self.uploads:
            branch, path, upload, etag = self.uploads[number % len(self.uploads)]
            part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
            body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
            self._ask("POST", branch, path, {"uploadId": upload}, body)

    def _s3_abort_parts(self, number: int) -> None:
        if self.uploads:
            branch, path, upload, _ = self.uploads[number % len(self.uploads)]
            self._ask("DELETE", branch, path, {"uploadId": upload})

    def _source(self, branch: str, path: str) -> dict[str, str]:
        return {"x-amz-copy-source": quote(f"/{self.repository}/{branch}/{path}")}

    def _ask(
        self,
        method: str,
        branch: str = "",
        path: str = "",
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        url = f"/{self.repository}/{branch}/{path}" if branch else f"/{self.repository}"
        raw = self._signed(method, quote(url), urlencode(query or {}), body, headers or {})

        def serve(server: Server) -> Response:
            backend = server.backend
            gateway = Gateway(
                backend.catalog, backend.accounts, backend.catalog.clock, lambda _request: iter(())
            )
            return gateway._serve(raw, iter((body,) if body else ()), _Progress())

        found: Response = self.serve(serve)
        return found

    def _signed(self, method: str, path: str, query: str, body: bytes, more: Mapping[str, str]) -> RawRequest:
        now = instant(self.scheduler.now)
        headers = {
            **more,
            "content-length": str(len(body)),
            "host": HOST,
            "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
            "x-amz-date": now.strftime(TIME_FORMAT),
        }
        names = sorted(headers)
        raw = RawRequest(
            method, path.encode(), query.encode(), [(name.encode(), headers[name].encode()) for name in names]
        )
        claim = Claim(
            access_key_id=OWNER[1],
            day=now.strftime("%Y%m%d"),
            region="us-east-1",
            service="s3",
            signed_at=now,
            signed_headers=tuple(names),
            signature="",
            payload=headers["x-amz-content-sha256"],
        )
        signature = sign(claim.signing_key(OWNER[2]), string_to_sign(raw, claim)).hex()
        credential = f"Credential={OWNER[1]}/{claim.scope}"
        signed = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={';'.join(names)}, Signature={signature}"
        return RawRequest(method, raw.path, raw.query, [*raw.headers, (b"authorization", signed.encode())])


def _text(response: Response, name: str) -> str:
    found = ElementTree.fromstring(bytes(response.body)).find(f"{_XML}{name}")
    assert found is not None, f"an answer of the gateway has no {name}: {bytes(response.body)!r}"
    return found.text or ""
