"""What reports say of the pending list.

Figures are a mapping of `found_now`, `waiting`, `confirmed` (each `objects`, `bytes`), and of `first_deletion` and
`last_deletion`: from when on what waits may first, and last, be deleted (ISO 8601; None where nothing waits).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from dredge.runs.words import size_text


def what_waits(pending: Mapping[str, Any]) -> str:
    """Say what was found, and from when on runs may delete what waits; "" where nothing waits.

    Args:
        pending: figures; {} for none.
    """
    if not pending or not pending["waiting"]["objects"]:
        return ""
    found, waiting, dates = pending["found_now"], pending["waiting"], _dates(pending)
    new = f"{found['objects']:,} of them since this run"
    text = f"{waiting['objects']:,} objects ({waiting['bytes']:,} bytes) wait, {new}"
    return f"{text}; the first run that can delete some is one after {dates[0]}." if dates else f"{text}."


def facts_of_waiting(pending: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Say what became of what runs find, in pairs of a title and a text.

    Args:
        pending: figures; {} for none.
    """
    if not pending:
        return

    def words(found: Mapping[str, int]) -> str:
        return f"{found['objects']:,} objects ({size_text(found['bytes'])})"

    yield "Found now", words(pending["found_now"])
    dates = _dates(pending)
    when = f"; a run may delete the first from {dates[0]} on, the last from {dates[-1]} on" if dates else ""
    yield "Waiting", f"{words(pending['waiting'])}{when}"
    yield "Confirmed", f"{words(pending['confirmed'])} that an earlier run found, and that have waited"


def _dates(pending: Mapping[str, Any]) -> list[str]:
    texts = [pending["first_deletion"], pending["last_deletion"]]
    return [f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC" for text in texts if text is not None]
