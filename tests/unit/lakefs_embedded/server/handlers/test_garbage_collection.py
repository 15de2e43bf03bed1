"""The server side of garbage collection, over HTTP."""

import csv
import json
from pathlib import Path

import lakefs
import lakefs_sdk
import pytest

from tests.support.lakefs_server import Lake, lakefs_server

GC = "/repositories/shop/gc"


@pytest.fixture
def main(lake: Lake) -> lakefs.Branch:
    branch = lake.repository("shop").branch("main")
    branch.object("a").upload(b"1")
    branch.commit("first")
    return branch


def rules(lake: Lake, default: int = 30, **branches: int) -> None:
    each = [
        lakefs_sdk.GarbageCollectionRule(branch_id=name, retention_days=days)
        for name, days in branches.items()
    ]
    lake.sdk.repositories_api.set_gc_rules(
        "shop", lakefs_sdk.GarbageCollectionRules(default_retention_days=default, branches=each)
    )


def key(lake: Lake, location: str) -> str:
    assert location.startswith(lake.namespace("shop") + "/")
    return location.removeprefix(lake.namespace("shop") + "/")


def csv_rows(lake: Lake, location: str) -> list[dict[str, str]]:
    return list(csv.DictReader(lake.writer("shop").get(key(lake, location)).decode().splitlines()))


# --- rules -------------------------------------------------------------------------------------------------


def test_trap_29_rules_of_zero_days_are_no_rules(main: lakefs.Branch, lake: Lake) -> None:
    rules(lake, 0)
    assert lake.http("GET", "/repositories/shop/settings/gc_rules").status == 404


# --- active commits ----------------------------------------------------------------------------------------


def test_the_synchronous_call_answers_400_with_two_documents_and_wrote_the_csv(
    main: lakefs.Branch, lake: Lake
) -> None:
    rules(lake)
    answer = lake.http("POST", f"{GC}/prepare_commits")
    assert answer.status == 400
    first, second = [json.loads(line) for line in answer.data.splitlines()]
    assert first == {"message": "local adapter presigned URL: operation not supported"}
    assert sorted(second) == [
        "gc_addresses_location",
        "gc_commits_location",
        "gc_commits_presigned_url",
        "run_id",
    ]
    assert second["gc_commits_presigned_url"] == ""
    ids = {row["commit_id"] for row in csv_rows(lake, second["gc_commits_location"])}
    assert ids == {each.id for each in main.log()}


# --- faults of real servers --------------------------------------------------------------------------------


def test_defect_404_hides_active_commits_behind_not_found(tmp_path: Path) -> None:
    with lakefs_server(tmp_path, defects={"prepare_commits_404"}) as lake:
        lake.repository("shop")
        rules(lake)
        for call in ("prepare_commits", "prepare_commits/async"):
            assert lake.http("POST", f"{GC}/{call}").status == 404


def test_defect_old_server_has_no_asynchronous_calls(tmp_path: Path) -> None:
    with lakefs_server(tmp_path, defects={"prepare_commits_500_async"}) as lake:
        lake.repository("shop")
        rules(lake)
        api = lake.sdk.internal_api
        for call in (
            lambda: api.prepare_garbage_collection_commits_async("shop"),
            lambda: api.prepare_garbage_collection_commits_status("shop", "GCPCx"),
        ):
            with pytest.raises(lakefs_sdk.exceptions.ServiceException) as refused:
                call()
            assert refused.value.status == 500
