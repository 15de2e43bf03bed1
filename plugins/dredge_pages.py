"""Dredge's pages in Airflow: an entry of the menu, and a tab at each DAG run; see `operators/pages.py`."""

from typing import Any

from airflow.plugins_manager import AirflowPlugin


class LazyPages:
    """The pages' application, loaded and created at the first request.

    Every Airflow process imports plugins, and some processes fork; only the API server needs the pages.
    """

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if self.app is None:
            from airflow_dredge.operators.pages import make_pages

            self.app = make_pages(scope["app"])  # the parent application
        await self.app(scope, receive, send)


class DredgePages(AirflowPlugin):
    """Pages about the results of collections."""

    name = "dredge_pages"
    fastapi_apps = [{"app": LazyPages(), "url_prefix": "/dredge", "name": "Dredge"}]
    external_views = [
        {
            "name": "Dredge",
            "href": "dredge/",
            "destination": "nav",
            "category": "browse",
            "url_route": "dredge",
        },
        {
            "name": "Dredge",
            "href": "dredge/run?dag={DAG_ID}&run={RUN_ID}",
            "destination": "dag_run",
            "url_route": "dredge-run",
        },
    ]
