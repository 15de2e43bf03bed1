"""The parts of `./run test versions` that run inside the environment of a cell; nothing of this tree is on its path."""

import asyncio
import json
import re
import sys
import time
import warnings
from functools import cache
from importlib.metadata import version
from typing import Any

ADDRESSES = ("/", "/why", "/static/pages.css")


def versions() -> dict[str, str]:
    found = {"Python": ".".join(map(str, sys.version_info[:3])), "Airflow": version("apache-airflow")}
    return found | {"PySpark": version("pyspark"), "protobuf": version("protobuf")}


def dag_bag() -> Any:
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:
        from airflow.models.dagbag import DagBag
    return DagBag()


def dags() -> dict[str, Any]:
    bag = dag_bag()
    return {
        "dags": sorted(bag.dags),
        "errors": {str(path): str(error) for path, error in bag.import_errors.items()},
    }


def keep_api() -> None:
    """Let `dag.test()` have one API of Airflow in this process, and wait for its start, as 3.3 does.

    Before, it makes one for each task and does not wait, so that on a busy machine the first request fails.
    """
    from airflow.sdk.execution_time import supervisor

    if hasattr(supervisor.in_process_api_server, "cache_info"):
        return
    supervisor.in_process_api_server = cache(supervisor.in_process_api_server)
    api = supervisor.in_process_api_server()
    assert api.transport
    until = time.monotonic() + 120
    while not hasattr(api.app.state, "svcs_registry") and time.monotonic() < until:
        time.sleep(0.1)


def run(dag_id: str, conf: str) -> dict[str, Any]:
    keep_api()
    done = dag_bag().dags[dag_id].test(run_conf=json.loads(conf))
    tasks = {ti.task_id: ti for ti in done.get_task_instances()}
    states = {name: str(getattr(ti.state, "value", ti.state)) for name, ti in tasks.items()}
    if set(states.values()) != {"success"}:
        sys.exit(f"{dag_id}: {states}")
    returned = {
        name: tasks[name].xcom_pull(task_ids=name) for name in ("plan", "save_report") if name in tasks
    }
    return {"tasks": states, **returned}


def pages() -> dict[str, int]:
    """Status of each page of Airflow's API server."""
    import httpx
    from airflow.api_fastapi.app import create_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from airflow_dredge.plugins.dredge_pages import DredgePages

    app = create_app(apps="core")
    if not any(getattr(route, "path", "") == "/dredge" for route in app.router.routes):
        (mounted,) = DredgePages.fastapi_apps
        app.mount(mounted["url_prefix"], mounted["app"])
        app.router.routes.insert(0, app.router.routes.pop())  # the last route takes every other address
    admin = SimpleAuthManagerUser(username="admin", role="ADMIN")
    token = app.state.auth_manager.generate_jwt(admin)

    async def ask(address: str, headers: dict[str, str]) -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return await client.get(f"/dredge{address}", headers=headers)

    def get(address: str) -> httpx.Response:
        return asyncio.run(ask(address, {"Authorization": f"Bearer {token}"}))

    def links(address: str, wanted: str) -> set[str]:
        return {f"/{link}" for link in re.findall(rf'href="({wanted})"', get(address).text)}

    (place,) = links("/", r"place/\w+")
    runs = links(place, r"place/\w+/run/\w+")
    addresses = [*ADDRESSES, place, f"{place}/gaps"]
    addresses += [run + page for run in sorted(runs) for page in ("", "/report", "/objects", "/restore")]
    found = {address: get(address).status_code for address in addresses}
    return found | {"without a token": asyncio.run(ask("/", {})).status_code, "runs": len(runs)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parts = {"versions": versions, "dags": dags, "run": run, "pages": pages}
    print(json.dumps(parts[sys.argv[1]](*sys.argv[2:])))
