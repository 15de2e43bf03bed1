"""What is served beside the API, without credentials."""

import urllib3

from lakefs_embedded.server.routes import BASE_PATH
from tests.support.lakefs_server import Lake


def fetch(lake: Lake, path: str, method: str = "GET") -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager(retries=False) as pool:
        return pool.request(method, lake.server.url + path)


def test_a_path_outside_the_api_is_a_page(shared_lake: Lake) -> None:
    for path in ("/", "/nowhere/at/all", "/repositories"):
        answer = fetch(shared_lake, path)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert BASE_PATH.encode() in answer.data
    assert fetch(shared_lake, "/nowhere", "POST").status == 404
    assert fetch(shared_lake, f"{BASE_PATH}/nowhere").status == 404


def test_the_usage_report_counts_requests_by_month(shared_lake: Lake) -> None:
    shared_lake.sdk.auth_api.get_current_user()
    report = shared_lake.sdk.internal_api.get_usage_report_summary()
    now = shared_lake.clock()
    assert [(each.year, each.month) for each in report.reports] == [(now.year, now.month)]
    assert report.reports[0].count > 0
    assert shared_lake.sdk.internal_api.get_usage_report_summary().installation_id == report.installation_id
    text = shared_lake.http("GET", "/usage-report/summary", headers={"Accept": "text/plain"}).data.decode()
    assert text.startswith(
        f"Usage for installation ID: {report.installation_id}\n{now.year}-{now.month:02}: "
    )
