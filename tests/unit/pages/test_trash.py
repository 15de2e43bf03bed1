"""Runs of the trash cleaner have pages of their own: by kind, by age, one by one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from dredge.pages.places import FolderPlaces, Place
from dredge.storage import open_writer
from dredge.trash.state import TrashState
from tests.support.pages import SCRIPT, Browser, pages_of
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


def test_the_cleaner_has_a_row_and_its_runs_are_listed(cleaned: tuple[Browser, Place, str]) -> None:
    client, place, run_id = cleaned
    assert place.kind == "kv"
    assert "KV trash" in client.get("/").text
    text = client.get(f"/place/{place.key}").text
    assert "looked: nothing was removed" in text
    assert run_id in text


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


def test_findings_are_filtered(cleaned: tuple[Browser, Place, str]) -> None:
    client, place, run_id = cleaned
    address = f"/place/{place.key}/run/{run_id}"
    assert "0 in all" in client.get(f"{address}?kind=heartbeat").text
    assert "0 in all" in client.get(f"{address}?prefix=nothing").text
    assert "0 in all" not in client.get(f"{address}?verdict=trash").text


def test_what_is_damaged_or_missing_is_said(cleaned: tuple[Browser, Place, str]) -> None:
    client, place, run_id = cleaned
    assert client.get(f"/place/{place.key}/run/{run_id}/objects").status_code == 404
    writer = open_writer(place.runs_uri)
    other = "0" * 20
    writer.put(f"{other}/plan.json", b"{}")
    assert "not finished" in client.get(f"/place/{place.key}").text
    assert "left no report" in client.get(f"/place/{place.key}/run/{other}").text
    for damaged in (b"[]", b"{", b'{"findings": 1}'):
        writer.put(f"{other}/report.json", damaged)
        assert "cannot be read" in client.get(f"/place/{place.key}").text
        answer = client.get(f"/place/{place.key}/run/{other}")
        assert (answer.status_code, "Traceback" in answer.text) == (500, False)
