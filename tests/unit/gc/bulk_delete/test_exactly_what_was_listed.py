"""On a store that can, a sweep deletes exactly what was listed: what took its place stays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dredge.storage import CHANGED
from tests.support.gc import summary_of
from tests.support.gcs import Answer, GcsServer, Query
from tests.support.gcs_lakes import ORPHANS, GcsBucket, client_of, collected, contents, planted
from tests.support.gcs_state import Generation
from tests.support.lakefs_server import lakefs_server


def test_a_candidate_that_was_uploaded_again_before_its_deletion_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lakeFS handed out may be uploaded to once more, and linked afterwards: no re-check sees that."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with GcsServer() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        bucket = GcsBucket(server.options, server.bucket())
        with lakefs_server(tmp_path, bucket=bucket) as lake:
            planted(lake)
            time.sleep(0.01)  # the store tells milliseconds
            kept, state = "data/odd//x", server.buckets[bucket.uri.split("/")[2]]

            def uploaded_again(_method: str, path: str, _query: Query) -> Answer | None:
                if path.startswith("/batch/"):
                    server.fault = lambda *_: None
                    state.write(Generation(f"lake/{kept}", ORPHANS[kept], {}))
                return None

            server.fault = uploaded_again
            run = collected(client_of(lake))
            left = contents(bucket)
            assert left[kept] == ORPHANS[kept]
            assert not {*ORPHANS} - {kept} & left.keys()
            groups = summary_of(run, "bulk_delete").details["groups"]
            assert [group["objects"] for group in groups if group["code"] == CHANGED] == [1]
            assert "it was overwritten" in run.folder.writer.get("report.html").decode()
