"""The plan of an Icechunk expiration is shown as its picture, in which nothing can run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.expiration.stored import store_plan
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.format.snapshots import micros
from dredge.icechunk.history import History
from dredge.pages.places import FolderPlaces, Place
from tests.support.pages import SCRIPT, Browser, pages_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, Place, str]:
    """A plan for a history of five snapshots and a tag with a hostile name."""
    folder: Path = tmp_path_factory.mktemp("icechunk")
    ids = [f"{number:020d}" for number in range(5)]
    entries = [
        SnapshotEntry(ids[n], ids[n - 1] if n else None, micros(NOW - timedelta(days=50 - n)), SCRIPT)
        for n in range(5)
    ]
    history = History(2, {entry.id: entry for entry in entries}, {"main": ids[4]}, {SCRIPT: ids[2]})
    uri = store_plan(f"file://{folder}", plan_expiration(history, NOW - timedelta(days=46, hours=1)), NOW)
    (place,) = FolderPlaces(f"file://{folder}").all()
    return pages_of(place), place, uri.rpartition("/")[2]


def test_a_plan_is_shown_with_its_history_and_what_becomes_of_each_ref(
    planned: tuple[Browser, Place, str],
) -> None:
    client, place, plan_id = planned
    assert f"expiration/{plan_id}" in client.get(f"/place/{place.key}").text
    text = client.get(f"/place/{place.key}/expiration/{plan_id}").text
    assert "branch:main" in text
    assert text.count("[main]") == 2
    assert SCRIPT not in text
