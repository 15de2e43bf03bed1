"""Lines of a preflight about a bucket: its Object Lock, bulk deletes, and what a listing takes."""

from datetime import UTC, datetime

import pytest

from dredge.storage import StorageOptions
from dredge.undo.preflight import _bulk_line, check_folders, check_lock, estimate_line
from tests.support.objectstore import Answer, ScriptedS3, make_bucket

LOCK = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{}</ObjectLockConfiguration>"
RULE = "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode>{}</DefaultRetention></Rule>"
NOT_KNOWN = (501, "<Error><Code>NotImplemented</Code></Error>")


@pytest.mark.parametrize(
    ("answer", "level", "days"),
    [
        ((200, LOCK.format(RULE.format("<Days>30</Days>"))), "warning", "30"),
        ((200, LOCK.format(RULE.format("<Years>2</Years>"))), "warning", "730"),
        ((200, LOCK.format("")), "ok", ""),
        ((404, "<Error><Code>ObjectLockConfigurationNotFoundError</Code></Error>"), "ok", ""),
        ((403, "<Error><Code>AccessDenied</Code></Error>"), "ok", "s3:GetBucketObjectLockConfiguration"),
        (NOT_KNOWN, "ok", "s3:GetBucketObjectLockConfiguration"),
    ],
)
def test_a_bucket_that_locks_what_is_written_is_said(answer: Answer, level: str, days: str) -> None:
    with ScriptedS3(lambda *_: answer) as server:
        (line,) = check_lock("s3://bucket/lake", server.options)
    assert (line.check, line.level) == ("object_lock", level)
    assert days in line.text
    assert bool(line.todo) == (level != "ok")


def test_a_store_that_takes_one_request_for_each_deletion_is_said(moto_options: StorageOptions) -> None:
    bucket = make_bucket(moto_options)
    (check,) = check_folders(
        {"data": f"{bucket.uri}/data"}, "x", 300, lambda: datetime.now(UTC), moto_options
    )
    lines = {line.check: line.level for line in check.ask()}
    assert (lines["store_data_bulk"], lines["store_data_delete"]) == ("ok", "ok")
    without = _bulk_line("store_data_bulk", has_bulk=False)
    assert (without.level, bool(without.todo)) == ("warning", True)


@pytest.mark.parametrize("is_all", [True, False])
def test_what_a_listing_takes_is_told_from_its_first_pages(is_all: bool) -> None:
    text = estimate_line("objects", 20_000, 2.0, is_all).text
    if is_all:
        assert {"20,000", "20", "2.0"} <= set(text.replace("(", " ").split())
    else:
        assert {"20,000", "1,000", "100.0", "1,000,000,"} <= set(text.split())
    assert estimate_line("objects", 0, 0.1, True).level == "ok"
