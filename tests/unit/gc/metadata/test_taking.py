"""On S3, exactly the versions go that were looked at, and what is put back replaces nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import NotFoundError
from dredge.gc.metadata.deleting import (
    DELETED,
    File,
    copy_aside,
    delete_files,
    find_copies,
    put_back,
    read_versions,
)
from dredge.gc.run import METADATA_RUNS
from dredge.storage import open_reader, open_writer
from dredge.storage.model import always
from dredge.xid import new_descending_xid
from tests.support.objectstore import make_bucket, moto_server

NAME = "ab" * 32


def test_what_is_written_between_the_look_and_the_deletion_stays_and_a_copy_comes_back() -> None:
    with moto_server() as options:
        bucket = make_bucket(options, versioned=True)
        namespace, now = f"{bucket.uri}/lake", datetime.now(UTC)
        run_uri = f"{namespace}/{METADATA_RUNS}/{new_descending_xid(now)}"
        writer = open_writer(namespace, options)
        for _ in range(2):
            writer.put(f"_lakefs/{NAME}", b"range")
        assert list(read_versions(namespace, [NAME], now - timedelta(days=1), options)) == [()], "young"
        (versions,) = read_versions(namespace, [NAME], now + timedelta(days=1), options)
        assert len(versions) == 2
        file = File(NAME, "garbage_ranges", 5, versions)
        assert copy_aside(namespace, run_uri, [file], options) == [None]

        writer.put(f"_lakefs/{NAME}", b"range")  # a commit does
        (taken,) = delete_files(namespace, [file], always, options)
        assert taken.outcome == DELETED
        assert writer.get(f"_lakefs/{NAME}") == b"range"

        (left,) = read_versions(namespace, [NAME], now + timedelta(days=1), options)
        assert len(left) == 1
        list(delete_files(namespace, [File(NAME, "garbage_ranges", 5, left)], always, options))
        with pytest.raises(NotFoundError):
            open_reader(namespace, options).stat(f"_lakefs/{NAME}")

        copies = find_copies(namespace, {NAME, "cd" * 32}, now, 7, options)
        assert copies == {NAME: run_uri}
        assert find_copies(namespace, {NAME}, now + timedelta(days=8), 7, options) == {}
        assert put_back(namespace, copies, options) == [NAME]
        assert writer.get(f"_lakefs/{NAME}") == b"range"
        writer.put(f"_lakefs/{NAME}", b"somebody's")
        assert put_back(namespace, copies, options) == []
        assert writer.get(f"_lakefs/{NAME}") == b"somebody's"
