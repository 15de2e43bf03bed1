"""DAG runs are triggered and waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dredge.graveler.actions.airflow import AirflowHook
from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import Log, Run
from dredge.graveler.actions.variables import Variables
from dredge.graveler.catalog.events import Event, EventType
from tests.support.http import Asked, Script, scripted_server
from tests.support.lakes import START, make_lake

RUN = Run("run1", "", "checks", "h1", "tester")


@pytest.fixture(scope="module")
def shared() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def airflow(shared: Script) -> Script:
    shared.asked.clear()
    shared.answer = lambda _: (200, {"state": "success"})
    return shared


def hook(url: str, poll: float = 0.001, **properties: object) -> AirflowHook:
    given: Mapping[str, Any] = {
        "url": f"{url}/base/",
        "dag_id": "my dag",
        "username": "u",
        "password": "{{ ENV.LAKEFSACTION_P }}",
        **properties,
    }
    return AirflowHook(given, Variables({"LAKEFSACTION_P": "s3cret"}), lambda: START, poll)


def run(made: AirflowHook) -> str:
    lake = make_lake()
    repository = lake.catalog.repositories.get_repository(lake.repository)
    log = Log()
    made.run(Event(EventType.PRE_COMMIT, repository, "main", "main"), RUN, log)
    return log.text()


def test_a_dag_is_triggered_with_the_event(airflow: Script) -> None:
    text = run(hook(airflow.endpoint, dag_conf={"z": 1, "a": {"b": True}}))
    [asked] = airflow.asked
    assert (asked.method, asked.path) == ("POST", "/base/api/v1/dags/my dag/dagRuns")
    assert asked.headers["authorization"] == "Basic dTpzM2NyZXQ="
    assert asked.body["dag_run_id"] == "lakeFS_hook_h1_run1"
    assert asked.body["conf"]["a"] == {"b": True}
    assert asked.body["conf"]["lakeFS_event"]["event_type"] == "pre-commit"
    assert "Username: u, Password: *******\n" in text
    assert "s3cret" not in text


def test_a_run_is_waited_for_until_it_has_ended(airflow: Script) -> None:
    states = iter(["queued", "running", "success"])

    def answer(asked: Asked) -> tuple[int, Any]:
        return (200, {"state": next(states)}) if asked.method == "GET" else (200, {})

    airflow.answer = answer
    text = run(hook(airflow.endpoint, wait_for_dag=True))
    assert [each.method for each in airflow.asked] == ["POST", "GET", "GET", "GET"]
    assert airflow.asked[1].path == "/base/api/v1/dags/my dag/dagRuns/lakeFS_hook_h1_run1"
    assert text.count("DAG completed with state: ") == 3


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ((200, {"state": "failed"}), "airflow hook DAG failed"),
        ((200, {"state": "running"}), "context deadline exceeded"),
        ((200, b"no JSON"), "not a JSON object"),
        ((404, {}), r"status code \(404\): airflow hook request failed"),
    ],
)
def test_a_run_that_does_not_succeed_fails_the_hook(
    airflow: Script, states: tuple[int, Any], why: str
) -> None:
    airflow.answer = lambda asked: states if asked.method == "GET" else (200, {})
    with pytest.raises(HookError, match=why):
        run(hook(airflow.endpoint, poll=0.01, wait_for_dag=True, timeout="50ms"))


def test_a_dag_that_cannot_be_triggered_fails_the_hook(airflow: Script) -> None:
    airflow.answer = lambda _: (409, {})
    with pytest.raises(HookError, match=r"status code \(409\)"):
        run(hook(airflow.endpoint))
    with pytest.raises(HookError, match="failed executing airflow request: Post"):
        run(hook("http://127.0.0.1:1"))


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"dag_id": ""}, "value of dag_id is empty"),
        ({"username": 5}, "value of username is not of type string"),
        ({"dag_conf": "x"}, "conf is not of type Properties"),
        ({"timeout": "soon"}, "airflow hook timeout property"),
        ({"password": "{{ ENV.LAKEFSACTION_NONE }}"}, "missing env var"),
    ],
)
def test_mistakes_in_properties(properties: Mapping[str, Any], why: str) -> None:
    with pytest.raises(HookError, match=why) as refused:
        hook("http://x", **properties)
    assert not refused.value.failed
