"""Dredge's pages in Airflow: an entry of the menu, and a tab at each DAG run; see `operators/pages.py`."""

from airflow.plugins_manager import AirflowPlugin

from airflow_dredge.operators.pages import LazyPages


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
