"""How far a run is, and how long it may still take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import FormatError, NotFoundError
from dredge.gc.insight.run_cost import FORECAST
from dredge.pages.history import uri_of
from dredge.pages.places import Place
from dredge.runs.folder import RunFolder
from dredge.runs.progress import read_progress
from dredge.runs.words import duration_text
from dredge.storage import open_writer


def progress_of(place: Place, run_id: str, report: Mapping[str, Any]) -> str:
    """Say how far a run is that has not ended; "" where nothing tells.

    Args:
        place: whose run.
        run_id: its id.
        report: as `report_of` gives it.
    """
    step = next((item["step"] for item in report["steps"] if item["status"] == "not done"), None)
    if report["outcome"] != "unfinished" or step is None:
        return ""
    folder = RunFolder(open_writer(uri_of(place, run_id), place.options), run_id)
    found = read_progress(folder, step)
    words = [f"{step} is next or at work."]
    if found is not None:
        at = datetime.fromisoformat(found["at"])
        words = [f"{found['text']} (at {at:%H:%M:%S} UTC)."]
    left = _left(folder, report)
    if left is not None:
        words.append(f"Steps that are not done took the last runs of this kind {duration_text(left)}.")
    return " ".join(words)


def _left(folder: RunFolder, report: Mapping[str, Any]) -> timedelta | None:
    """What the steps that are not done took before; None when no run of this kind ended."""
    try:
        seconds: dict[str, float] = folder.read_json(FORECAST)["seconds"]
    except (NotFoundError, FormatError, KeyError, TypeError):
        return None
    waiting = [item["step"] for item in report["steps"] if item["status"] == "not done"]
    return timedelta(seconds=round(sum(seconds.get(step, 0.0) for step in waiting)))
