"""Pull requests through the generated SDK."""

from __future__ import annotations

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.exceptions import ApiException, BadRequestException, NotFoundException

from tests.support.lakefs_server import Lake

NOWHERE = "no-such-thing"


@pytest.fixture
def pulls(lake: Lake) -> sdk.PullsApi:
    """A repository whose branch `side` is one commit before `main`."""
    lake.repository("lake")
    lake.sdk.branches_api.create_branch("lake", sdk.BranchCreation(name="side", source="main"))
    put(lake, "side", b"1")
    return lake.sdk.pulls_api


def put(lake: Lake, branch: str, data: bytes) -> None:
    url = f"/repositories/lake/branches/{branch}/objects"
    assert lake.http("POST", url, query={"path": "a"}, body=data).status == 201
    lake.sdk.commits_api.commit("lake", branch, sdk.CommitCreation(message="m"))


def wanted(**changes: str) -> sdk.PullRequestCreation:
    fields = {"title": "t", "description": "d", "source_branch": "side", "destination_branch": "main"}
    return sdk.PullRequestCreation(**(fields | changes))


def test_a_pull_request_is_opened_shown_changed_and_merged(lake: Lake, pulls: sdk.PullsApi) -> None:
    made = pulls.create_pull_request("lake", wanted()).id
    shown = pulls.get_pull_request("lake", made)
    assert (shown.status, shown.title, shown.description) == ("open", "t", "d")
    assert (shown.source_branch, shown.destination_branch) == ("side", "main")
    assert shown.author
    assert (shown.merged_commit_id, shown.closed_date) == (None, None)
    pulls.update_pull_request("lake", made, sdk.PullRequestBasic(title="better"))
    assert pulls.get_pull_request("lake", made).title == "better"
    merged = pulls.merge_pull_request("lake", made)
    head = lake.sdk.branches_api.get_branch("lake", "main").commit_id
    shown = pulls.get_pull_request("lake", made)
    assert merged.reference == shown.merged_commit_id == head
    assert (shown.status, shown.closed_date is not None) == ("merged", True)


def test_listings_by_status(pulls: sdk.PullsApi) -> None:
    closed = pulls.create_pull_request("lake", wanted()).id
    pulls.update_pull_request("lake", closed, sdk.PullRequestBasic(status="closed"))
    still_open = pulls.create_pull_request("lake", wanted()).id

    def listed(**query: str) -> set[str]:
        return {each.id for each in pulls.list_pull_requests("lake", **query).results}

    assert listed() == listed(status="all") == {closed, still_open}
    assert listed(status="open") == {still_open}
    assert listed(status="closed") == {closed}


def status_of(call: object, *args: object) -> int:
    with pytest.raises(ApiException) as refused:
        call(*args)  # type: ignore[operator]
    return int(refused.value.status)


def test_codes_of_refusals(lake: Lake, pulls: sdk.PullsApi) -> None:
    made = pulls.create_pull_request("lake", wanted()).id
    assert status_of(pulls.create_pull_request, "lake", wanted()) == 409
    assert status_of(pulls.create_pull_request, "lake", wanted(source_branch="main")) == 400
    assert status_of(pulls.create_pull_request, "lake", wanted(title="")) == 400
    assert status_of(pulls.create_pull_request, "lake", wanted(source_branch=NOWHERE)) == 404
    assert status_of(pulls.create_pull_request, NOWHERE, wanted()) == 404
    for call in (pulls.get_pull_request, pulls.merge_pull_request):
        with pytest.raises(NotFoundException):
            call("lake", NOWHERE)
    with pytest.raises(NotFoundException):
        pulls.update_pull_request("lake", NOWHERE, sdk.PullRequestBasic(title="x"))
    with pytest.raises(BadRequestException, match="only a merge"):
        pulls.update_pull_request("lake", made, sdk.PullRequestBasic(status="merged"))
    assert lake.http("GET", "/repositories/lake/pulls", query={"status": "odd"}).status == 400
    assert lake.http("PATCH", f"/repositories/lake/pulls/{made}", json_body={"status": "odd"}).status == 400


def test_a_conflict_is_409_with_a_body_of_its_own(lake: Lake, pulls: sdk.PullsApi) -> None:
    made = pulls.create_pull_request("lake", wanted()).id
    put(lake, "main", b"2")
    answer = lake.http("PUT", f"/repositories/lake/pulls/{made}/merge")
    assert (answer.status, answer.json()) == (409, {"reference": ""})
    assert pulls.get_pull_request("lake", made).status == "open"
