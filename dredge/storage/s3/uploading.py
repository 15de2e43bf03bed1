"""Uploading a stream of unknown length in bounded memory: one put, or a multipart upload when it is large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

PART_BYTES = 8 << 20


class Upload:
    """One upload; holds at most one part in memory.

    Parts grow as the upload does, so that 10,000 of them reach the largest object S3 takes.
    """

    def __init__(self, client: Any, bucket: str, name: str, if_absent: bool) -> None:
        self._client = client
        self._target = {"Bucket": bucket, "Key": name}
        self._condition = {"IfNoneMatch": "*"} if if_absent else {}

    def send(self, chunks: Iterable[bytes]) -> None:
        """Write the object; after an error, also one that `chunks` raises, nothing of it is left."""
        parts = _parts(chunks)
        first = next(parts, b"")
        second = next(parts, None)
        if second is None:
            self._client.put_object(**self._target, Body=first, **self._condition)
            return
        upload = {
            **self._target,
            "UploadId": self._client.create_multipart_upload(**self._target)["UploadId"],
        }
        try:
            done = [self._send_part(upload, 1, first), self._send_part(upload, 2, second)]
            done += [self._send_part(upload, number, part) for number, part in enumerate(parts, 3)]
            self._client.complete_multipart_upload(
                **upload, MultipartUpload={"Parts": done}, **self._condition
            )
        except BaseException:
            self._client.abort_multipart_upload(**upload)
            raise

    def _send_part(self, upload: dict[str, Any], number: int, part: bytes) -> dict[str, Any]:
        answer = self._client.upload_part(**upload, PartNumber=number, Body=part)
        return {"PartNumber": number, "ETag": answer["ETag"]}


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    buffer = bytearray()
    sent = 0
    size = PART_BYTES
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
            sent += 1
            if sent % 1000 == 0:
                size = min(size * 2, 512 << 20)
    if buffer:
        yield bytes(buffer)
