"""Runs of the trash cleaner have pages of their own: by kind, by age, one by one."""

import html
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import pytest

from dredge.pages.places import Facts, FolderPlaces, Place, Schedule
from dredge.storage import open_writer
from dredge.trash.state import TrashState
from tests.support.pages import SCRIPT, Around, Browser, pages_of
from tests.support.trash import Ground

DAY = timedelta(days=2)


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, Place, str]:
    """A look, then a clean that removed a partition; a name in the store is hostile."""
    folder: Path = tmp_path_factory.mktemp("trash")
    ground = Ground(TrashState(open_writer(f"file://{folder}/state")))
    ground.world.stage(f"{SCRIPT}-token")
    ground.scan(holder="kv_trash_cleaner manual__1 scan")
    report = ground.clean(after=DAY, holder="kv_trash_cleaner manual__2 clean")
    assert report.rows_removed
    (place,) = FolderPlaces(f"file://{folder}").all()
    return pages_of(place), place, report.scan.plan.run_id


def test_a_clean_shows_what_went_and_how_it_comes_back(cleaned: tuple[Browser, Place, str]) -> None:
    client, place, run_id = cleaned
    text = client.get(f"/place/{place.key}/run/{run_id}").text
    assert "staging-orphan" in text
    assert "deleted" in text
    assert "dredge trash restore" in text
    assert SCRIPT not in text
    answer = client.get("/run?" + urlencode({"dag": "kv_trash_cleaner", "run": "manual__2"}), False)
    assert answer.headers["location"].endswith(run_id)
    assert client.get("/run?" + urlencode({"dag": "kv_trash_cleaner", "run": "manual__"})).status_code == 404


MAY = Facts(
    is_airflow=True,
    schedules=(
        Schedule("trash_daily", {"state_uri": "", "kv_conn_id": "of_the_schedule"}, "daily", None, False),
    ),
    may_start=frozenset({"kv_trash_restore"}),
    form_token="the user's own",
)


def known_of(place: Place, **other: Any) -> Facts:
    (schedule,) = MAY.schedules
    settings = {**schedule.settings, "state_uri": place.store_uri}
    return replace(MAY, schedules=(replace(schedule, settings=settings),), **other)


def test_rows_come_back_by_a_form_of_the_users_own(cleaned: tuple[Browser, Place, str]) -> None:
    _, place, run_id = cleaned
    around = Around(known_of(place))
    client = pages_of(place, around=around)
    address = f"/place/{place.key}/run/{run_id}"
    text = client.get(address).text
    (partition,) = re.findall(r'<option value="([^"]+)">[^<]*: \d', text)
    form = {"partition": html.unescape(partition), "form_token": "the user's own"}
    answer = client.post(f"{address}/restore-rows", form)
    assert answer.status_code == 303
    back = client.get(urljoin(f"{address}/restore-rows", answer.headers["location"]))
    assert (back.status_code, "restores the rows" in back.text) == (200, True)
    asked = {"state_uri": place.store_uri, "run": run_id, "dry_run": False, "kv_conn_id": "of_the_schedule"}
    assert around.started == [("kv_trash_restore", {**asked, "partition": html.unescape(partition)})]


@pytest.mark.parametrize(
    ("known", "fields", "status"),
    [
        ({}, {"form_token": "another's"}, 403),
        ({"may_start": frozenset({"lakefs_gc_restore"})}, {"form_token": "the user's own"}, 403),
        ({}, {"form_token": "the user's own", "partition": "nothing of this"}, 400),
    ],
)
def test_no_row_comes_back_by_another_form(
    cleaned: tuple[Browser, Place, str], known: dict[str, Any], fields: dict[str, str], status: int
) -> None:
    _, place, run_id = cleaned
    around = Around(known_of(place, **known))
    client = pages_of(place, around=around)
    assert client.post(f"/place/{place.key}/run/{run_id}/restore-rows", fields).status_code == status
    assert around.started == []
