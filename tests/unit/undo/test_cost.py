"""What it costs that deletions can be taken back is said before anything is deleted."""

from __future__ import annotations

import pytest

from dredge.undo.ways import cost_of_undo


@pytest.mark.parametrize(
    ("way", "objects", "size_bytes", "requests", "kept_bytes"),
    [
        ("off", 10, 1000, 0, 0),
        ("versions", 10, 1000, 0, 1000),
        ("quarantine", 10, 1000, 30, 1000),
        ("quarantine", 1, 8 << 30, 11, 8 << 30),
    ],
)
def test_cost(way: str, objects: int, size_bytes: int, requests: int, kept_bytes: int) -> None:
    found = cost_of_undo(way, objects, size_bytes)
    assert (found.requests, found.size_bytes) == (requests, kept_bytes)
    assert (found.seconds > 0) == (way == "quarantine")
