"""What a server finds when it starts on a store that another one left."""

from __future__ import annotations

import time
from pathlib import Path

import lakefs
import pytest
from lakefs.exceptions import ConflictException, NotFoundException

from dredge.graveler.catalog import Settings
from dredge.graveler.refs.records import REPOSITORIES_PARTITION, Repository, repository_key
from dredge.graveler.refs.repositories import in_state
from dredge.kv import open_store
from tests.support.lakefs_server import lakefs_server


def test_tokens_that_were_queued_are_dropped_without_anybodys_asking(tmp_path: Path) -> None:
    kv = open_store("memory://")
    token = b"shop-main:00000000-0000-4000-8000-000000000000"
    kv.set(token, b"path", b"")
    kv.set(b"cleanup-tokens", token, b"stub-value")
    with lakefs_server(tmp_path, kv=kv):
        until = time.monotonic() + 20
        while list(kv.scan(b"cleanup-tokens")) and time.monotonic() < until:
            time.sleep(0.01)
        assert list(kv.scan(b"cleanup-tokens")) == []
        assert list(kv.scan(token)) == []


def test_step_2_over_http(tmp_path: Path) -> None:
    kv = open_store("memory://")
    with lakefs_server(tmp_path, kv=kv, catalog=Settings(life_cycle="step-2")) as lake:
        lake.repository("shop").branch("main").object("a").upload(b"a")
        with pytest.raises(ConflictException):
            lake.repository("shop")
        record = Repository.decode(kv.get(REPOSITORIES_PARTITION, repository_key("shop")))
        lakefs.Repository("shop", lake.client).delete()
        assert [entry.key for entry in kv.scan(b"graveler_deleted")] == [
            f"repo/shop/{record.instance_uid}".encode()
        ]
        with pytest.raises(NotFoundException):
            lakefs.Repository("shop", lake.client).delete()
        kv.set(REPOSITORIES_PARTITION, repository_key("shop"), in_state(record, "in-deletion").encode())
        assert list(lakefs.repositories(client=lake.client)) == []
    with lakefs_server(tmp_path, kv=kv, catalog=Settings(life_cycle="step-2")) as lake:
        assert list(kv.scan(REPOSITORIES_PARTITION)) == []  # the deletion was finished at the start
