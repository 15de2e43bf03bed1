"""Focuses of the collector's world: see `Focus`."""

from typing import Any

from tests.simulation.focus import Focus
from tests.simulation.gc.settings import ALL_SETTINGS, CHEAP, YES

OWN_RUNS = frozenset(
    {
        "asked_first",
        "taken_back",
        "beyond_limits",
        "answered_early",
        "made_final",
        "asked_anew",
        "asked_late",
        "changed_while_asked",
        "told_no",
        "back_in_a_slice",
        "copies_fail",
        "copy_is_damaged",
        "deleted_late",
        "not_all_deleted",
        "pinned_between",
        "something_is_there",
        "weeks_later",
        "written_over",
        "back_a_day_late",
    }
)
"""Scenes with a separate run, without effect after another run has deleted everything."""


def on(*scenes: str, **settings: Any) -> Focus:
    """Scenes, some values of the setting (`_` stands for a space), and otherwise the fastest values."""
    named = {
        name if name in ALL_SETTINGS else name.replace("_", " "): value for name, value in settings.items()
    }
    looks = {"dry": (YES,)} if OWN_RUNS.issuperset(scenes) else {}
    return Focus(scenes, {**CHEAP, **looks, **named})
