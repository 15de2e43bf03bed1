"""The docs list the settings as the code has them."""

from __future__ import annotations

from airflow_dredge.operators.settings_page import PAGE, page


def test_the_page_of_settings_says_what_the_fields_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/settings.md is old: run ./run docs"
