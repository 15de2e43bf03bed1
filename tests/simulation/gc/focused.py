"""For each bug what the histories that hunt it have more often: see `Focus`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulation.focus import Focus
from tests.simulation.gc.settings import CHEAP


def _on(*scenes: str, **settings: Any) -> Focus:
    """Scenes, some values of the setting (`_` stands for a space), and else what takes least time."""
    named = {name.replace("_", " "): value for name, value in settings.items()}
    return Focus(scenes, {**CHEAP, **named})


FOCUS: Mapping[str, Focus] = {}
"""By name of the bug."""
