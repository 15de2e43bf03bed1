"""Settings of a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.collection.config import CollectConfig
from tests.support.icechunk_repo import Repo


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_age_hours": 1, "unsafe_min_age_seconds": None},
        {"grace_hours": -1},
        {"max_delete_objects": -1},
        # So long ago that no date says it.
        {"min_age_hours": 1e8, "unsafe_min_age_seconds": None},
        {"unsafe_min_age_seconds": 1e12},
        {"grace_hours": 1e8},
        {"overwritten_min_age_hours": 1e8},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Repo(tmp_path).config(**wrong)
    with pytest.raises(ConfigError, match=r"unknown setting tuning\.fast"):
        CollectConfig.from_json({"uri": "x", "tuning": {"fast": 1}})
