"""Webhooks post events; anything but 2xx refuses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import Log, Run
from dredge.graveler.actions.variables import Variables
from dredge.graveler.actions.webhook import WebhookHook
from dredge.graveler.catalog.events import Event, EventType
from tests.support.http import scripted_server
from tests.support.lakes import START, make_lake

RUN = Run("run1", "", "checks", "h1", "tester")
VARIABLES = {"LAKEFSACTION_T": "s3cret"}


def hook(**properties: object) -> WebhookHook:
    return WebhookHook({"url": "http://x", **properties}, Variables(VARIABLES), lambda: START)


def test_a_request_and_its_log() -> None:
    lake = make_lake()
    repository = lake.catalog.repositories.get_repository(lake.repository)
    event = Event(EventType.PRE_DELETE_TAG, repository, "c1", tag="v<1>", commit_id="c1")
    body = (
        '{"event_type":"pre-delete-tag","event_time":"2026-01-02T03:04:05Z","action_name":"checks","hook_id":"h1",'
        '"repository_id":"lake","source_ref":"c1","tag_id":"v\\u003c1\\u003e","commit_id":"c1"}'
    )
    with scripted_server() as server:
        server.answer = lambda _: (204, b"")
        made = hook(
            url=f"{server.endpoint}/p?own=1",
            query_params={"b": ["1", "x y"], "a": "{{ ENV.LAKEFSACTION_T }}"},
            headers={"X-Token": "t {{ ENV.LAKEFSACTION_T }}"},
        )
        log = Log()
        made.run(event, RUN, log)
        [asked] = server.asked
        assert log.text().startswith(
            f"Request:\nPOST {server.endpoint}/p?own=1\nQuery Params:\nb: 1\nb: x y\na: *******\n"
            f"Headers:\nX-Token: *******\nContent-Type: application/json\nRequest Body:\n{body}\n\n"
        )
    assert asked.query == {"own": "1", "a": "s3cret", "b": "1"}
    assert (asked.headers["x-token"], asked.headers["content-type"]) == ("t s3cret", "application/json")
    assert asked.body["tag_id"] == "v<1>"


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"url": 5}, "webhook url must be string"),
        ({"timeout": "soon"}, "webhook request duration"),
        ({"query_params": "x"}, "unsupported query params"),
        ({"query_params": {"a": 1}}, "single value should be of type string"),
        ({"query_params": {"a": [1]}}, "array should contains only strings"),
        ({"headers": ["x"]}, "unsupported headers"),
        ({"headers": {"a": 1}}, "headers array should contains only strings"),
    ],
)
def test_mistakes_in_properties(properties: Mapping[str, object], why: str) -> None:
    with pytest.raises(HookError, match=why) as refused:
        hook(**properties)
    assert not refused.value.failed
