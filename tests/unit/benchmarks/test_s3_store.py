"""Requests are counted from the store's log, the lakeFS server's apart."""

from pathlib import Path

import pytest

from benchmarks.s3_store import KEYS, SERVER_KEYS, Requests, by_place, name_place


def line(access_key: str, operation: str, key: str = "repo/data/a name with s3_GetObject in it") -> str:
    time = "[22/November/2026:14:11:12 +0000]"
    return f"OWNER bucket {time} 127.0.0.1 {access_key} ID {operation} {key} /bucket/x 200 - 0 0\n"


def test_requests_are_counted_as_the_log_grows(tmp_path: Path) -> None:
    log, ours, theirs = tmp_path / "log", KEYS["AWS_ACCESS_KEY_ID"], SERVER_KEYS["AWS_ACCESS_KEY_ID"]
    last = line(ours, "s3_ListObjectsV2")
    log.write_text(
        "log starts 2026-11-22\n" + line(ours, "s3_PutObject") * 2 + line(theirs, "s3_GetObject") + last[:60]
    )
    counted = Requests(log)
    assert counted.counts() == {"put": 2, "lakefs get": 1}
    with log.open("a") as file:
        file.write(last[60:] + line(ours, "s3_GetBucketVersioning"))
    assert counted.counts() == {"put": 2, "lakefs get": 1, "list": 1, "GetBucketVersioning": 1}
    assert by_place(counted.places()) == {
        "data/": {"GetBucketVersioning": 1, "list": 1, "put": 2},
    }


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("repo/data/a/b", "data/"),
        (f"repo/_lakefs/{'0a' * 32}", "ranges and metaranges"),
        ("repo/_lakefs/", "_lakefs/"),
        ("repo/_lakefs/retention/gc/dredge/index/parts/x.parquet", "index/parts"),
        ("repo/_lakefs/retention/gc/dredge/lease.json", "lease.json"),
        ("repo/_lakefs/retention/gc/unified/ft5m/plan.json", "runs: plan.json"),
        ("repo/_lakefs/retention/gc/unified/ft5m/verify/_try.json", "runs: _try.json"),
        ("repo/_lakefs/retention/gc/unified/ft5m/bulk_delete/_watch/1-2.json", "runs: rows"),
        ("repo/_lakefs/retention/gc/unified/ft5m/subtract/t001/part-0.parquet", "runs: rows"),
    ],
)
def test_places_are_kinds_of_objects(key: str, place: str) -> None:
    assert name_place(key) == place
