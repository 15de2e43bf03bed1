"""Requests to emulators of clouds are counted from their logs."""

from pathlib import Path

import pytest

from benchmarks.requests import FORMAT, open_requests
from benchmarks.s3_store import LOG

TIME = "[23/Nov/2026:02:42:57 +0000]"


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
    counted = open_requests({LOG: str(log), FORMAT: "common"})
    assert counted is not None
    assert counted.counts() == {kind: 2}


def test_requests_are_told_by_what_they_ask_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    targets = (
        "GET /storage/v1/b/bucket/o?prefix=lake%2Fdata%2F",
        f"GET /storage/v1/b/bucket/o/lake%2F_lakefs%2F{'a' * 64}?alt=media",
        f"GET /account/container/lake/_lakefs/{'b' * 64}",
        "POST /batch/storage/v1",
    )
    log.write_text("".join(f'127.0.0.1 - - {TIME} "{target} HTTP/1.1" 200 1\n' for target in targets))
    counted = open_requests({LOG: str(log), FORMAT: "common"})
    assert counted is not None
    assert counted.places() == {
        ("list", "data/"): 1,
        ("get", "ranges and metaranges"): 2,
        ("bulk_delete", "bucket"): 1,
    }
