"""The pages inside Airflow: who may see them, and which repositories they find."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import httpx
import pytest

from airflow_dredge.operators.pages import AirflowPlaces
from dredge.errors import ConfigError
from dredge.pages.places import Place
from dredge.testing import run_lakefs
from tests.support.airflow import FILTERS, Airflow
from tests.support.gc import busy_world

pytestmark = [
    pytest.mark.dags,
    *(pytest.mark.filterwarnings(line) for line in FILTERS),
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


def get(app: Any, address: str, user: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token(app, user)}"} if user else {}

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return await client.get(address, headers=headers)

    return asyncio.run(send())


def token(app: Any, role: str) -> str:
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    made: str = app.state.auth_manager.generate_jwt(
        SimpleAuthManagerUser(username=role, role=None if role == "nobody" else role)
    )
    return made


@pytest.mark.parametrize("address", ["/", "/place/a", "/why", "/run?dag=a&run=b", "/static/pages.css"])
def test_nobody_sees_a_page_without_a_token(api: Any, address: str) -> None:
    assert get(api, f"/dredge{address}").status_code == 401


def test_who_may_read_the_dag_sees_them(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, _ = busy_world()
    world.collect(dry_run=True)
    place = Place(
        "lakefs", "lake", f"{world.lake.namespace}/_lakefs/retention/gc/unified", world.lake.namespace
    )
    monkeypatch.setattr(AirflowPlaces, "all", lambda _self: [place])
    answer = get(api, "/dredge/", "viewer")
    assert answer.status_code == 200
    assert place.key in answer.text
    assert get(api, f"/dredge/place/{place.key}", "viewer").status_code == 200
    assert get(api, "/dredge/", "nobody").status_code == 403


def test_repositories_are_those_of_the_connections(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_variable_that_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_DREDGE_PAGES", '{"uri": "s3://lake"}')
    with pytest.raises(ConfigError, match="must be a list"):
        AirflowPlaces().all()
