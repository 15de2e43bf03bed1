"""The pages inside Airflow: who may see them, and which repositories they find."""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from unittest import mock

import httpx
import pytest

from airflow_dredge.operators.pages import AirflowPlaces
from dredge.errors import ConfigError
from dredge.icechunk.maintenance import RUNS as ICECHUNK_RUNS
from dredge.pages.places import Place
from dredge.storage import open_writer
from lakefs_embedded.testing import run_lakefs
from tests.support.airflow import ROOT, Airflow
from tests.support.pages import ADDRESSES
from tests.support.undo import undo_world

pytestmark = [
    # Airflow's own API server imports a test client.
    pytest.mark.filterwarnings("ignore:Using `httpx` with"),
    pytest.mark.filterwarnings("ignore:The HMAC key"),
]


@pytest.fixture(scope="module")
def api(airflow: Airflow) -> Iterator[Any]:
    """Airflow's API server with the plugin, its database untouched by the pages."""
    from airflow.api_fastapi.app import create_app, purge_cached_app

    plugin = import_module("airflow_dredge.plugins.dredge_pages").DredgePages
    (mounted,) = plugin.fastapi_apps
    app = create_app(apps="core")
    app.mount(mounted["url_prefix"], mounted["app"])
    # The page of every other address is the last of the routes.
    app.router.routes.insert(0, app.router.routes.pop())
    yield app
    purge_cached_app()


def ask(app: Any, method: str, address: str, user: str = "", **more: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token(app, user)}"} if user else {}

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return await client.request(method, address, headers=headers, **more)

    return asyncio.run(send())


def get(app: Any, address: str, user: str = "") -> httpx.Response:
    return ask(app, "GET", address, user)


def token(app: Any, role: str) -> str:
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    made: str = app.state.auth_manager.generate_jwt(
        SimpleAuthManagerUser(username=role, role=None if role == "nobody" else role)
    )
    return made


@pytest.fixture(scope="module")
def dags(api: Any) -> Iterator[None]:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    schedules = {"daily_lake": {"schedule": "@daily", "repository": "lake", "mode": "clean"}}
    with mock.patch.dict(os.environ, AIRFLOW_VAR_DREDGE_GC_SCHEDULES=json.dumps(schedules)):
        DagBundlesManager().sync_bundles_to_db()
        for name in ("lakefs_gc", "lakefs_gc_restore"):
            bag = DagBag(dag_folder=str(ROOT / "dags" / f"{name}.py"))
            sync_bag_to_db(bag, "dags-folder", None)
        yield


@pytest.fixture(scope="module")
def swept_run() -> tuple[Place, str]:
    world, _, _ = undo_world("quarantine")
    run = world.plan()
    world.run(run)
    root = f"{world.lake.namespace}/_lakefs/retention/gc/unified"
    place = Place("lakefs", "lake", root, world.lake.namespace)
    return place, f"/dredge/place/{place.key}/run/{run.plan.run_id}"


@pytest.fixture
def swept(swept_run: tuple[Place, str], monkeypatch: pytest.MonkeyPatch) -> tuple[Place, str]:
    monkeypatch.setattr(AirflowPlaces, "all", lambda _self: [swept_run[0]])
    return swept_run


@pytest.mark.parametrize("address", ADDRESSES)
def test_nobody_sees_a_page_without_a_token(api: Any, address: str) -> None:
    assert get(api, f"/dredge{address}").status_code == 401
    assert get(api, f"/dredge{address}", "nobody").status_code == 403


def test_who_may_only_read_changes_nothing(api: Any, dags: None, swept: tuple[Place, str]) -> None:
    _, run = swept
    address = f"{run}/restore"
    for user, status in (("", 401), ("nobody", 403), ("viewer", 403)):
        assert ask(api, "POST", address, user, data={"all": "true"}).status_code == status
    shown = get(api, f"{address}?all=true", "viewer")
    assert (shown.status_code, "form_token" in shown.text) == (200, False)
    assert restores(api) == []


def test_who_may_start_the_dag_starts_a_restore_with_a_form_of_their_own(
    api: Any, dags: None, swept: tuple[Place, str]
) -> None:
    place, run = swept
    address = f"{run}/restore"
    own = form_token(get(api, f"{address}?prefix=data/slice0/", "user").text)
    others = form_token(get(api, f"{address}?prefix=data/slice0/", "admin").text)
    assert ask(api, "POST", address, "user", data={"all": "true", "form_token": others}).status_code == 403
    fields = {"prefix": "data/slice0/", "form_token": own}
    off = ask(api, "POST", address, "user", data=fields)
    assert (off.status_code, "is paused" in off.text) == (400, True)
    switch_on = ask(api, "PATCH", "/api/v2/dags/lakefs_gc_restore", "admin", json={"is_paused": False})
    assert switch_on.status_code == 200
    assert ask(api, "POST", address, "user", data=fields).status_code == 303
    (started,) = restores(api)
    assert started["conf"]["prefix"] == "data/slice0/"
    assert started["conf"]["run"] == f"{place.runs_uri}/{run.rpartition('/')[2]}"


def restores(api: Any) -> list[dict[str, Any]]:
    answer = get(api, "/api/v2/dags/lakefs_gc_restore/dagRuns", "admin")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["dag_runs"]
    return found


def form_token(text: str) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', text)
    assert found is not None, text
    return found[1]


def test_schedules_and_windows_come_from_airflow_with_the_users_rights(
    api: Any, dags: None, swept: tuple[Place, str]
) -> None:
    place, _ = swept
    address = f"/dredge/place/{place.key}"
    off = get(api, address, "viewer")
    assert "daily_lake" in off.text
    assert "switched off" in off.text
    assert "be <strong>clean</strong>: asked for" in off.text  # the schedule says so
    windows = get(api, f"{address}/gaps", "user").text
    assert "Windows of daily_lake without" in windows
    assert re.search("(29|30) since", windows)  # the first day of them was begun before
    assert "permission to start backfills" in get(api, f"{address}/gaps", "viewer").text


def test_repositories_are_those_of_the_connections(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, no_pauses: None
) -> None:
    with run_lakefs(tmp_path) as lake:
        lake.create_repository("lake")
        lake.create_repository("other")
        connection = json.dumps(
            {
                "conn_type": "lakefs",
                "host": lake.url,
                "login": lake.server.access_key_id,
                "password": lake.server.secret_access_key,
            }
        )
        for name in ("LAKEFS_DEFAULT", "SECOND"):
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", connection)
        monkeypatch.setenv(
            "AIRFLOW_VAR_DREDGE_GC_SCHEDULES",
            '{"gc_lake": {"schedule": "@daily", "repository": "lake", "run_root": "file:///runs"}}',
        )
        places = AirflowPlaces()
        found = {place.name: place.runs_uri for place in places.all()}
        assert found["lake"] == "file:///runs"
        assert found["other"].endswith("/_lakefs/retention/gc/unified")
        assert set(found) == {"lake", "other"}
    # The server is down from here on.
    monkeypatch.setattr(places, "_until", 0.0)
    assert {place.name for place in places.all()} == {"lake", "other"}, (
        "those that were seen before are shown"
    )
    assert "connection lakefs_default" in places.problems()[0]
    monkeypatch.setenv("AIRFLOW_VAR_DREDGE_PAGES", json.dumps([{"uri": f"file://{tmp_path}/ice"}]))
    open_writer(f"file://{tmp_path}/ice/{ICECHUNK_RUNS}/{'0' * 20}").put("plan.json", b"{}")
    fresh = AirflowPlaces()
    assert [place.kind for place in fresh.all()] == ["icechunk"]
    assert fresh.problems()


def test_a_variable_that_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_DREDGE_PAGES", '{"uri": "s3://lake"}')
    with pytest.raises(ConfigError):
        AirflowPlaces().all()
    monkeypatch.setenv("AIRFLOW_VAR_DREDGE_PAGES", '[{"uri": "s3://lake", "conn_id": "other"}]')
    with pytest.raises(ConfigError):
        AirflowPlaces().all()
