"""Airflow's facts for Dredge's pages, read from its public API in this process as the page's user.

    schedules        DAGs with the tag ``dredge`` and a schedule, with their Params
    waiting          tasks of these DAGs in state ``awaiting_input``
    gaps             intervals without a successful run in the last weeks
    start            starts a run, if the user may

Pages show and do only what the user may see and do in Airflow.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request

from dredge.errors import ConfigError, UnavailableError
from dredge.pages.places import Blocking, Facts, Gaps, NotAllowedError, Schedule, Waiting
from dredge.pages.restoring import ROWS_DAG, UNDOING

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI


TAG = "dredge"
#: DAGs that pages can start.
STARTED = (*(item.dag for item in UNDOING.values()), ROWS_DAG)
#: Search range for intervals without a run.
GAPS_SINCE = timedelta(days=30)
#: Params that pages show.
_SETTINGS = ("repository", "storage", "state_uri", "mode", "clean_every_days", "kv_conn_id")
_REMEMBERED_SECONDS = 60.0
_ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")
_DAGS_MAX = 100
_RUNS_MAX = 100


class AirflowFacts:
    """Reads Airflow's API."""

    def __init__(self, core: FastAPI) -> None:
        self._core = core
        self._settings: dict[str, tuple[float, dict[str, Any]]] = {}

    async def facts(self, request: Request) -> Facts:
        """Return Airflow's facts with the user's permissions."""
        user = request.state.dredge_user
        answer = await self._ask(
            request, "GET", f"/dags?tags={TAG}&limit={_DAGS_MAX}&exclude_stale=true&order_by=dag_id"
        )
        if answer.status_code != 200:
            return Facts(is_airflow=True, problem=f"Airflow does not list its DAGs: {_said(answer)}")
        dags = {found["dag_id"]: found for found in answer.json()["dags"]}
        return Facts(
            is_airflow=True,
            schedules=tuple(
                [await self._schedule(request, item) for item in dags.values() if _has_schedule(item)]
            ),
            waiting=tuple(await self._waiting(request, dags)),
            may_start=frozenset(name for name in STARTED if name in dags and _may_start(user, name)),
            form_token=self._form_token(user),
        )

    async def gaps(self, request: Request, schedule: Schedule) -> Gaps:
        """Return the intervals of a schedule without a successful run."""
        now = datetime.now(UTC)
        asked = {
            "dag_id": schedule.dag_id,
            "from_date": (now - GAPS_SINCE).isoformat(),
            "to_date": now.isoformat(),
            "reprocess_behavior": "failed",
            "run_backwards": False,
            "dag_run_conf": {},
        }
        answer = await self._ask(request, "POST", "/backfills/dry_run", asked)
        starts = None
        if answer.status_code == 200:
            found = (item["logical_date"] for item in answer.json()["backfills"])
            starts = sorted(datetime.fromisoformat(item) for item in found if item)
        runs = await self._ask(
            request,
            "GET",
            f"/dags/{quote(schedule.dag_id, '')}/dagRuns?limit={_RUNS_MAX}&order_by=-logical_date",
        )
        found_runs = runs.json()["dag_runs"] if runs.status_code == 200 else []
        return Gaps(schedule, now - GAPS_SINCE, starts, tuple(_blocking(found_runs)))

    async def start(self, request: Request, dag_id: str, settings: Mapping[str, Any]) -> str:
        """Start a run as the user."""
        found = await self._ask(request, "GET", f"/dags/{quote(dag_id, '')}")
        if found.status_code == 200 and found.json()["is_paused"]:
            raise ConfigError(f"the DAG {dag_id} is paused. Nothing was started. Unpause it in Airflow.")
        body = {"logical_date": None, "conf": dict(settings)}
        answer = await self._ask(request, "POST", f"/dags/{quote(dag_id, '')}/dagRuns", body)
        if answer.status_code in (401, 403):
            raise NotAllowedError(f"you may not start runs of {dag_id}. Nothing was started.")
        if answer.status_code >= 500:
            raise UnavailableError(f"Airflow did not start {dag_id}: {_said(answer)}")
        if answer.status_code >= 300:
            raise ConfigError(f"Airflow did not start {dag_id}: {_said(answer)}")
        return _address(dag_id, answer.json()["dag_run_id"])

    async def _schedule(self, request: Request, found: Mapping[str, Any]) -> Schedule:
        next_at = None if found["is_paused"] else found["next_dagrun_run_after"]
        types = found.get("allowed_run_types")
        return Schedule(
            dag_id=found["dag_id"],
            settings=await self._read_settings(request, found["dag_id"]),
            text=found["timetable_description"] or found["timetable_summary"],
            next_at=None if next_at is None else datetime.fromisoformat(next_at),
            may_backfill=found.get("timetable_periodic", True) and (types is None or "backfill" in types),
            is_off=found["is_paused"],
        )

    async def _read_settings(self, request: Request, dag_id: str) -> dict[str, Any]:
        """Return the Params in `_SETTINGS` of a DAG; cached for a minute."""
        until, found = self._settings.get(dag_id, (0.0, {}))
        if time.monotonic() < until:
            return found
        answer = await self._ask(request, "GET", f"/dags/{quote(dag_id, '')}/details")
        if answer.status_code != 200:
            return {}
        params = answer.json()["params"] or {}
        found = {name: params[name]["value"] for name in _SETTINGS if params.get(name)}
        self._settings[dag_id] = (time.monotonic() + _REMEMBERED_SECONDS, found)
        return found

    async def _waiting(self, request: Request, dags: Iterable[str]) -> list[Waiting]:
        answer = await self._ask(
            request, "GET", "/dags/~/dagRuns/~/hitlDetails?response_received=false&limit=50"
        )
        return list(_asked(answer.json()["hitl_details"], dags)) if answer.status_code == 200 else []

    async def _ask(
        self, request: Request, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """Call the API with the user's credentials, on the event loop, without another thread."""
        import httpx

        shown = {
            name: request.headers[name] for name in ("authorization", "cookie") if name in request.headers
        }
        transport = httpx.ASGITransport(self._core, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return await client.request(method, f"/api/v2{path}", headers=shown, json=body)

    def _form_token(self, user: BaseUser) -> str:
        """Return a token for forms of this user; the same in every process of the API server."""
        key = str(self._core.state.secret_key).encode()
        return hmac.new(key, f"dredge pages {user.get_id()}".encode(), hashlib.sha256).hexdigest()


def _may_start(user: BaseUser, dag_id: str) -> bool:
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id), user=user
    )


def _blocking(runs: Iterable[Mapping[str, Any]]) -> Iterator[Blocking]:
    """Yield failed runs before an active run by date; for DAGs with depends_on_past."""
    dated = sorted((run for run in runs if run["logical_date"]), key=lambda run: str(run["logical_date"]))
    for one, following in pairwise(dated):
        if one["state"] == "failed" and following["state"] in ("running", "queued"):
            name = one["dag_run_id"]
            yield Blocking(name, _address(one["dag_id"], name), following["dag_run_id"])


def _has_schedule(found: Mapping[str, Any]) -> bool:
    return bool(found["timetable_summary"])


def _asked(details: Iterable[Mapping[str, Any]], dags: Iterable[str]) -> Iterator[Waiting]:
    known = set(dags)
    for item in details:
        task = item["task_instance"]
        if task["dag_id"] in known and task["state"] not in _ENDED:
            yield Waiting(
                subject=item["subject"],
                dag_id=task["dag_id"],
                run=task["dag_run_id"],
                since=datetime.fromisoformat(item["created_at"]),
                address=f"{_address(task['dag_id'], task['dag_run_id'])}/required_actions",
            )


def _address(dag_id: str, run_id: str) -> str:
    return f"dags/{quote(dag_id, '')}/runs/{quote(run_id, '')}"


def _said(answer: httpx.Response) -> str:
    """Return the error text of Airflow's answer."""
    try:
        return f"{answer.status_code} {answer.json()['detail']}"
    except (ValueError, KeyError, TypeError):
        return str(answer.status_code)


# FastAPI reads the annotations, so they are no text.


def keep_user(request: Request, user: BaseUser = Depends(get_user)) -> None:  # noqa: B008
    """Store the user for the pages."""
    request.state.dredge_user = user


def requires_access(
    method: ResourceMethod, dag_id: str, entity: DagAccessEntity | None = None
) -> Callable[..., Any]:
    """Return a dependency that requires a permission of the user."""
    if "param_dag_id" in inspect.signature(requires_access_dag).parameters:
        return requires_access_dag(method, entity, param_dag_id=dag_id)

    # Airflow 3.0 takes the DAG from the path only.
    def ask(user: BaseUser = Depends(get_user)) -> None:  # noqa: B008
        details = DagDetails(id=dag_id)
        if not get_auth_manager().is_authorized_dag(
            method=method, access_entity=entity, details=details, user=user
        ):
            raise HTTPException(403, "Forbidden")

    return ask
