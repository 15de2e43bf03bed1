"""What is an action file, and what a real server says of one that is not."""

from __future__ import annotations

import pytest

from dredge.graveler.actions.errors import ActionFileError
from dredge.graveler.actions.model import Action, parse_action
from dredge.graveler.catalog.events import Event, EventType
from tests.support.lakes import make_lake

HOOK = "{id: h1, type: webhook, properties: {url: 'http://x'}}"


def file(on: str = "{pre-commit: }", hooks: str = HOOK, name: str = "checks") -> bytes:
    return f"name: {name}\non: {on}\nhooks: [{hooks}]\n".encode()


def test_a_file_is_read_with_the_scalars_of_yaml_1_2() -> None:
    action = parse_action(
        b"""
name: Good merge
description: anything
unknown: is ignored
on:
  pre-merge: {branches: [main, "stage-*"]}
  post-commit:
hooks:
  - id: no_temp
    type: webhook
    if: success()
    properties: {url: "http://x", query_params: {on: yes, n: 1, t: true, d: 2026-01-01}}
"""
    )
    assert action.name == "Good merge"
    assert action.on == {EventType.PRE_MERGE: ("main", "stage-*"), EventType.POST_COMMIT: ()}
    [hook] = action.hooks
    assert (hook.id, hook.type, hook.condition) == ("no_temp", "webhook", "success()")
    assert hook.properties["query_params"] == {"on": "yes", "n": 1, "t": True, "d": "2026-01-01"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"on: {pre-commit: }", "'name' is required: invalid action"),
        (file(name="'?'"), "'name' is invalid: invalid action"),
        (b"name: checks", "'on' is required: invalid action"),
        (file("{pre-nothing: }"), "event 'pre-nothing' is not supported: invalid action"),
        (
            file("{pre-create-tag: {branches: [main]}}"),
            "'branches' is not supported in tag event types. invalid event parameter",
        ),
        (file(hooks="{type: webhook}"), "hook[0] missing ID: invalid action"),
        (file(hooks="{id: a b, type: webhook}"), "hook[0] missing ID: invalid action"),
        (file(hooks=f"{HOOK}, {HOOK}"), "hook[1] duplicate ID 'h1': invalid action"),
        (file(hooks="{id: h1, type: other}"), "hook[0] type 'h1' unknown: invalid action"),
        (
            file(hooks="{id: h1, type: webhook}"),
            "hook[0] type 'webhook': missing hook properties: invalid action",
        ),
        (
            file(hooks="{id: h1, type: lua, properties: {}}"),
            "hook[0] type 'lua': 'script' or 'script_path' must be supplied in properties: invalid action",
        ),
        (
            file(hooks="{id: h1, type: airflow, properties: {url: u}}"),
            "hook[0] type 'airflow': 'dag_id' must be supplied in properties: invalid action",
        ),
        (b"- a list", "yaml: unmarshal errors: an action must be a mapping with names as keys"),
        (file("[pre-commit]"), "yaml: unmarshal errors: on must be a mapping with names as keys"),
        (b"name: a\nname: b\n", 'yaml: line 2: mapping key "name" already defined'),
        (b"a: [", "yaml: line 1: "),
        (b"\xff\xfe\x00", "yaml: "),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused_as_by_a_real_server(content: bytes, why: str) -> None:
    with pytest.raises(ActionFileError) as refused:
        parse_action(content)
    assert str(refused.value).startswith(why)
    assert refused.value.status == 500


@pytest.mark.parametrize(
    ("on", "event", "branch", "expected"),
    [
        ("{pre-commit: }", "pre-commit", "any", True),
        ("{pre-commit: {branches: []}}", "pre-commit", "any", True),
        ("{pre-commit: }", "pre-merge", "any", False),
        ("{pre-commit: {branches: [main]}, pre-merge: }", "pre-commit", "other", False),
        ("{pre-commit: {branches: [x, 'feature-*']}}", "pre-commit", "feature-1", True),
        ("{pre-commit: {branches: ['feature-*']}}", "pre-commit", "feature", False),
        ("{post-create-tag: }", "post-create-tag", "", True),
    ],
)
def test_an_action_is_for_its_events_and_branches(on: str, event: str, branch: str, expected: bool) -> None:
    lake = make_lake()
    repository = lake.catalog.repositories.get_repository(lake.repository)
    action: Action = parse_action(file(on))
    assert action.is_for(Event(EventType(event), repository, "main", branch)) is expected
