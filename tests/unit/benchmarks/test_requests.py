"""Requests are counted from the store's log, the lakeFS server's apart where lines tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.requests import FORMAT, LOG, SERVER_KEY, requests_of
from benchmarks.s3_store import KEYS

TIME = "[23/Nov/2026:02:42:57 +0000]"


def line(access_key: str, operation: str, key: str = "repo/data/a name with s3_GetObject in it") -> str:
    time = "[22/November/2026:14:11:12 +0000]"
    return f"OWNER bucket {time} 127.0.0.1 {access_key} ID {operation} {key} /bucket/x 200 - 0 0\n"


def test_requests_are_counted_as_the_log_grows(tmp_path: Path) -> None:
    log, ours, theirs = tmp_path / "log", KEYS["AWS_ACCESS_KEY_ID"], SERVER_KEY
    last = line(ours, "s3_ListObjectsV2")
    log.write_text(
        "log starts 2026-11-22\n" + line(ours, "s3_PutObject") * 2 + line(theirs, "s3_GetObject") + last[:60]
    )
    counted = requests_of({LOG: str(log)})
    assert counted is not None
    assert counted.counts() == {"put": 2, "lakefs get": 1}
    with log.open("a") as file:
        file.write(last[60:] + line(ours, "s3_GetBucketVersioning"))
    assert counted.counts() == {"put": 2, "lakefs get": 1, "list": 1, "GetBucketVersioning": 1}


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("GET /storage/v1/b/bucket/o?prefix=lake%2Fdata%2F&fields=x", "list"),
        ("GET /storage/v1/b/bucket/o/lake%2Fdata%2Fa%20b?alt=media", "get"),
        ("GET /storage/v1/b/bucket/o/lake%2Fdata%2Fa%20b?fields=name%2Csize", "head"),
        ("GET /storage/v1/b/bucket?fields=versioning", "bucket"),
        ("POST /upload/storage/v1/b/bucket/o?uploadType=multipart", "put"),
        ("POST /batch/storage/v1", "bulk_delete"),
        ("DELETE /storage/v1/b/bucket/o/x", "delete"),
        ("GET /account/container?restype=container&comp=list&prefix=lake", "list"),
        ("GET /account/container?restype=account&comp=properties", "bucket"),
        ("GET /account/container/lake/data/a", "get"),
        ("HEAD /account/container/lake/data/a", "head"),
        ("PUT /account/container/lake/data/a", "put"),
        ("POST /account/container?restype=container&comp=batch", "bulk_delete"),
    ],
)
def test_lines_of_emulators_tell_the_kind_of_each_request(tmp_path: Path, target: str, kind: str) -> None:
    log = tmp_path / "log"
    plain = f'127.0.0.1 - - {TIME} "{target} HTTP/1.1" 200 1\n'
    quoted = f'time=1 level=INFO msg="127.0.0.1 - - {TIME} \\"{target} HTTP/1.1\\" 200 27\\n"\n'
    of_a_batch = f'time=1 level=INFO msg=" - - {TIME} \\"DELETE /storage/v1/b/b/o/x HTTP/1.1\\" 200 5\\n"\n'
    log.write_text("Azurite Blob service is starting on 127.0.0.1:1\n" + plain + quoted + of_a_batch)
    counted = requests_of({LOG: str(log), FORMAT: "common"})
    assert counted is not None
    assert counted.counts() == {kind: 2}


def test_a_folder_has_no_requests() -> None:
    assert requests_of({}) is None
