"""Dumps and restores through the generated SDK."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.exceptions import ApiException, BadRequestException, ForbiddenException, NotFoundException

from tests.support.lakefs_server import Lake

NOWHERE = "no-such-thing"


def original(lake: Lake) -> sdk.RefsDump:
    """A repository with a commit, two branches and a tag; gives its dump."""
    lake.repository("lake")
    url = "/repositories/lake/branches/main/objects"
    assert lake.http("POST", url, query={"path": "a"}, body=b"content").status == 201
    lake.sdk.commits_api.commit("lake", "main", sdk.CommitCreation(message="m", metadata={"k": "v"}))
    lake.sdk.branches_api.create_branch("lake", sdk.BranchCreation(name="side", source="main"))
    lake.sdk.tags_api.create_tag("lake", sdk.TagCreation(id="v1", ref="main"))
    return lake.sdk.internal_api.dump_refs("lake")


def bare(lake: Lake, name: str = "copy", **more: Any) -> str:
    creation = sdk.RepositoryCreation(name=name, storage_namespace=lake.namespace("lake"), **more)
    lake.sdk.repositories_api.create_repository(creation, bare=True)
    return name


def as_restore(dump: sdk.RefsDump, **changes: Any) -> sdk.RefsRestore:
    return sdk.RefsRestore(**(dump.to_dict() | changes))


def refs(lake: Lake, name: str) -> list[object]:
    api = lake.sdk
    return [
        api.branches_api.list_branches(name).results,
        api.tags_api.list_tags(name).results,
        [commit.to_dict() for commit in api.refs_api.log_commits(name, "main").results],
    ]


def wait(look: Callable[[], Any]) -> Any:
    until = time.monotonic() + 30
    while not (status := look()).done:
        assert time.monotonic() < until
        time.sleep(0.01)
    return status


def test_the_same_in_the_background(lake: Lake) -> None:
    original(lake)
    bare(lake)
    api = lake.sdk.repositories_api
    task = api.dump_submit("lake").id
    status = wait(lambda: api.dump_status("lake", task))
    assert (status.error, status.id) == (None, task)
    restoring = api.restore_submit("copy", as_restore(status.refs)).id
    assert wait(lambda: api.restore_status("copy", restoring)).error is None
    assert refs(lake, "copy") == refs(lake, "lake")


def test_a_background_restore_that_fails_says_why(lake: Lake) -> None:
    dump = original(lake)
    lake.repository("full")
    api = lake.sdk.repositories_api
    task = api.restore_submit("full", as_restore(dump)).id
    assert "incomplete" in wait(lambda: api.restore_status("full", task)).error


def test_codes_of_refusals(lake: Lake) -> None:
    dump = original(lake)
    internal, repositories = lake.sdk.internal_api, lake.sdk.repositories_api
    with pytest.raises(NotFoundException):
        internal.dump_refs(NOWHERE)
    with pytest.raises(NotFoundException):
        repositories.dump_submit(NOWHERE)
    for look in (repositories.dump_status, repositories.restore_status):
        with pytest.raises(NotFoundException):
            look("lake", NOWHERE)
    bare(lake)
    with pytest.raises(NotFoundException):
        internal.restore_refs("copy", as_restore(dump, tags_meta_range_id="0" * 64))
    with pytest.raises(BadRequestException):
        internal.restore_refs("copy", as_restore(dump, tags_meta_range_id=dump.commits_meta_range_id))
    bare(lake, "locked", read_only=True)
    with pytest.raises(ForbiddenException):
        internal.restore_refs("locked", as_restore(dump))
    with pytest.raises(ForbiddenException):
        repositories.restore_submit("locked", as_restore(dump))
    internal.restore_refs("locked", as_restore(dump, force=True))
    lake.sdk.commits_api.commit("lake", "main", sdk.CommitCreation(message="m", allow_empty=True))
    with pytest.raises(BadRequestException, match="bare repository"):
        internal.restore_refs("lake", as_restore(dump))
    answer = lake.http("PUT", "/repositories/copy/refs/restore", json_body={"force": True})
    assert answer.status == 400
    with pytest.raises(ApiException):
        internal.restore_refs(NOWHERE, as_restore(dump))
