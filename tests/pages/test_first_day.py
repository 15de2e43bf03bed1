"""A storage owner's first day: every page of Dredge's in a browser, in a whole Airflow, on a lake with garbage.

One story, told once: each test goes on where the one before ended. Pictures of every page are in .dredge/pictures.
"""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import pytest

from dredge.gc.run import RUNS
from tests.pages.browsing import WAIT_SECONDS, WIDE, Tour, browser, fill
from tests.pages.house import HOSTILE, MIN_AGE_SECONDS, ROOT, SCHEDULED, House, house
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

PICTURES = ROOT / ".dredge" / "pictures"
IN_EARNEST = {"dry_run": False, "undo": "quarantine", "approval": "always", "max_delete_percent": 100}
STATE = "select state from dag_run where dag_id = %s and run_id = %s"


@pytest.fixture(scope="module")
def home(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("house"), postgres) as found:
        yield found


@pytest.fixture(scope="module")
def tour(home: House) -> Iterator[Tour]:
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    with browser() as running:
        page = running.new_page(viewport=WIDE)  # type: ignore[arg-type]
        page.set_default_timeout(60_000)
        yield Tour(page, home.url, PICTURES)


@pytest.fixture(scope="module")
def story() -> dict[str, str]:
    return {}


def trigger(tour: Tour, dag_id: str, values: dict[str, Any]) -> str:
    """Start a run from Airflow's form; gives its id."""
    tour.open(f"dags/{dag_id}")
    tour.page.get_by_role("button", name="Trigger").first.click()
    fill(tour.page, values)
    tour.airflow_picture(f"airflow-form-{dag_id}")
    tour.page.get_by_role("dialog").get_by_role("button", name="Trigger").last.click()
    tour.page.wait_for_url(re.compile(rf"/dags/{dag_id}/runs/.+"))
    return tour.page.url.partition("/runs/")[2].partition("/")[0].partition("?")[0]


def ended(home: House, dag_id: str, run: str) -> None:
    def done() -> bool:
        ((found,),) = home.airflow.rows(STATE, dag_id, unquote(run))
        return found in ("success", "failed")

    home.airflow.wait(f"{dag_id} {run}", done, WAIT_SECONDS)
    ((found,),) = home.airflow.rows(STATE, dag_id, unquote(run))
    assert found == "success", home.airflow.story()


def run_page(tour: Tour, dag_id: str, run: str) -> str:
    for _ in range(int(WAIT_SECONDS)):
        tour.dredge(f"run?{urlencode({'dag': dag_id, 'run': unquote(run)})}")
        if "/place/" in tour.page.url:
            return tour.page.url.partition("/dredge/")[2]
        tour.page.wait_for_timeout(1000)
    raise AssertionError(f"{dag_id} {run} planned nothing")


def test_an_empty_installation_says_what_to_do(tour: Tour) -> None:
    tour.open("plugin/dredge")
    tour.frame.get_by_role("heading", name="Repositories").wait_for()
    tour.airflow_picture("airflow-dredge")
    tour.dredge()
    assert tour.page.get_by_text("no run yet").count() == 1
    tour.picture("overview-empty")
    tour.page.get_by_role("link", name="demo").click()
    assert tour.page.get_by_text("No run yet.").count() == 1
    tour.picture("repository-empty")


def test_a_dry_run_from_the_form_is_watched_and_its_candidates_are_looked_at(
    home: House, tour: Tour, story: dict[str, str]
) -> None:
    time.sleep(MIN_AGE_SECONDS)
    run = trigger(
        tour,
        "lakefs_gc",
        {"repository": "demo", "unsafe_min_age_seconds": MIN_AGE_SECONDS, "unsafe_grace_seconds": 0},
    )
    story["dry"] = run_page(tour, "lakefs_gc", run)
    assert tour.page.get_by_text("running").count()
    tour.picture("run-at-work")
    tour.page.get_by_text("dry run: nothing was deleted").first.wait_for(timeout=WAIT_SECONDS * 1000)
    ended(home, "lakefs_gc", run)
    tour.page.reload()
    tour.picture("run-dry")
    tour.open(f"dags/lakefs_gc/runs/{run}/plugin/dredge-run")
    tour.frame.get_by_role("heading", name="Garbage collection of demo").wait_for()
    tour.airflow_picture("airflow-run-tab")
    tour.dredge(f"{story['dry']}/objects")
    tour.picture("objects-dry")
    tour.page.get_by_label("Address begins with").fill("data/hostile/")
    tour.page.get_by_role("button", name="Show").click()
    shown = tour.page.locator("tbody code").all_inner_texts()
    assert set(shown) == set(HOSTILE)
    tour.picture("objects-hostile")
    with tour.page.expect_download() as download:
        tour.page.get_by_role("link", name="Download CSV").click()
    assert len(Path(download.value.path()).read_text(encoding="utf-8").splitlines()) > len(HOSTILE)


def test_a_run_in_earnest_asks_and_deletes_what_was_approved(
    home: House, tour: Tour, story: dict[str, str]
) -> None:
    asked = {
        "repository": "demo",
        "unsafe_min_age_seconds": MIN_AGE_SECONDS,
        "unsafe_grace_seconds": 0,
        "max_delete_percent": None,
        **IN_EARNEST,
    }
    run = trigger(tour, "lakefs_gc", asked)
    story["real"] = run_page(tour, "lakefs_gc", run)
    tour.until("awaiting approval: nothing was deleted")
    tour.picture("run-waits")
    assert (Path(home.planted.namespace.removeprefix("local://")) / HOSTILE[1]).exists()
    tour.dredge()
    tour.picture("overview-waits")
    tour.open("plugin/dredge")
    tour.frame.get_by_role("link", name="Approve or reject").click()
    tour.page.wait_for_url(re.compile(r"//[^/]+/dags/.*/required_actions"))
    approve = tour.page.get_by_role("button", name="Approve")
    approve.wait_for()
    tour.airflow_picture("airflow-approval")
    approve.click()
    ended(home, "lakefs_gc", run)
    tour.dredge(story["real"])
    assert tour.page.get_by_text("were deleted.").count()
    tour.picture("run-done")
    left = {key for batch in home.planted.store.list("data/") for key in batch["key"].to_pylist()}
    assert {item.address for item in home.planted.planted.values() if item.live} <= left
    assert not {*HOSTILE} & left


def test_why_is_told_of_a_kept_and_of_a_deleted_object(home: House, tour: Tour) -> None:
    kept = next(item for item in home.planted.planted.values() if item.live and item.kind == "committed")
    for name, address, words in (("kept", kept.address, "it stays"), ("deleted", HOSTILE[2], "deleted")):
        tour.dredge("why")
        tour.page.get_by_label("An address").fill(address)
        tour.page.get_by_role("combobox", name="Repository").select_option(label="demo")
        tour.page.get_by_role("button", name="Ask").click()
        assert words in tour.page.locator("pre.answer").inner_text()
        tour.picture(f"why-{name}")


def test_one_object_is_brought_back_and_the_others_stay_gone(
    home: House, tour: Tour, story: dict[str, str]
) -> None:
    tour.dredge(story["real"])
    tour.page.get_by_role("link", name="Restore").click()
    tour.page.get_by_label("One address").fill(HOSTILE[2])
    tour.page.get_by_role("button", name="Show the objects").click()
    assert "1 object " in tour.page.locator("[data-choice]").inner_text()
    tour.picture("restore-looked-at")
    tour.page.get_by_role("button", name="Restore 1 object").click()
    assert tour.page.get_by_role("status").count() == 1
    tour.until("1 were restored")
    tour.picture("restore-done")
    folder = Path(home.planted.namespace.removeprefix("local://"))
    assert (folder / HOSTILE[2]).read_bytes() == b"hostile"
    assert not (folder / HOSTILE[1]).exists()


def test_the_page_of_a_repository_leads_to_its_backfills(home: House, tour: Tour) -> None:
    tour.dredge()
    tour.page.get_by_role("link", name="demo").click()
    tour.page.get_by_role("link", name="Backfill in Airflow").wait_for()
    tour.picture("repository")
    tour.page.get_by_role("link", name="Backfill in Airflow").click()
    tour.page.wait_for_url(re.compile(rf"//[^/]+/dags/{SCHEDULED}/backfills"))
    tour.airflow_picture("airflow-backfill")


def test_an_icechunk_repository_is_expired_and_its_plan_shown(home: House, tour: Tour) -> None:
    run = trigger(
        tour,
        "icechunk_expiration",
        {"storage": f"file://{home.icechunk}", "older_than": home.expires, "collect_mode": "local"},
    )
    ended(home, "icechunk_expiration", run)
    run_page(tour, "icechunk_expiration", run)
    tour.picture("icechunk-run")
    tour.page.get_by_role("navigation").get_by_role("link", name="icechunk").click()
    tour.picture("icechunk-repository")
    tour.page.locator("a[href*='/expiration/']").first.click()
    tour.page.get_by_role("heading", name="Plan of an expiration").wait_for()
    assert tour.page.locator("main pre").count()
    tour.picture("icechunk-plan")


def test_trash_of_the_key_value_store_is_shown_by_kind_and_age(home: House, tour: Tour) -> None:
    run = trigger(tour, "kv_trash_cleaner", {"state_uri": f"file://{home.trash}"})
    ended(home, "kv_trash_cleaner", run)
    run_page(tour, "kv_trash_cleaner", run)
    assert tour.page.get_by_text("staging-orphan").count()
    tour.picture("trash-run")
    tour.page.get_by_role("navigation").get_by_role("link", name="trash").click()
    tour.picture("trash-repository")


def test_what_is_damaged_gone_or_down_has_a_page_that_says_so(
    home: House, tour: Tour, story: dict[str, str]
) -> None:
    root = Path(home.planted.namespace.removeprefix("local://")) / RUNS
    dry = root / story["dry"].rpartition("/")[2]
    (dry / "plan.json").write_text("{")
    (dry / "report.json").write_text("{")
    tour.dredge(story["dry"])
    assert tour.page.get_by_role("heading", name="Damaged").count() == 1
    tour.picture("run-damaged")
    shutil.rmtree(dry)
    tour.dredge(story["dry"])
    assert tour.page.get_by_text("not the folder of a run").count()
    tour.picture("run-gone")
    home.lake.server.stop()
    tour.dredge(f"place/{'0' * 16}")
    tour.until("cannot be reached")
    tour.picture("server-down")
