"""What a page of a scan may have covered."""

from __future__ import annotations

import base64
import json

import pytest

from dredge.gc.mark_uncommitted.extents import Extent


def token(branch: str, path: str = "") -> str:
    members = {"branch": branch, "path": path, "run_id": "r", "key": ""}
    return base64.b64encode(json.dumps(members).encode()).decode()


@pytest.mark.parametrize(
    ("extent", "starts"),
    [
        (Extent.between(None, None), {"a": "", "m": "", "z": ""}),
        (Extent.between(None, token("m")), {"a": "", "m": None, "z": None}),
        (Extent.between(None, token("m", "p")), {"a": "", "m": "", "z": None}),
        (Extent.between(token("m"), None), {"a": None, "m": "", "z": ""}),
        (Extent.between(token("m", "path/7"), token("z")), {"a": None, "m": "path/", "z": None}),
        (Extent.between("not a token", "nor this"), {"a": "", "m": "", "z": ""}),
        (Extent.between(token("m", "\ufffd7"), None), {"a": None, "m": "", "z": ""}),
        (Extent.between(token("é"), None), {"z": None, "é": "", "😀": ""}),
    ],
)
def test_what_a_page_may_have_covered(extent: Extent, starts: dict[str, str | None]) -> None:
    assert {branch: extent.after(branch) for branch in starts} == starts
