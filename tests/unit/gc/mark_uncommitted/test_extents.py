"""What a page of a scan may have covered."""

from __future__ import annotations

import base64
import json

import pytest

from dredge.gc.mark_uncommitted.staged import Extent


def token(branch: str, path: str = "") -> str:
    members = {"branch": branch, "path": path, "run_id": "r", "key": ""}
    return base64.b64encode(json.dumps(members).encode()).decode()


@pytest.mark.parametrize(
    ("asked", "given", "starts"),
    [
        (None, None, {"a": "", "m": "", "z": ""}),
        (None, token("m"), {"a": "", "m": None, "z": None}),
        (None, token("m", "p"), {"a": "", "m": "", "z": None}),
        (token("m"), None, {"a": None, "m": "", "z": ""}),
        (token("m", "path/7"), token("z"), {"a": None, "m": "path/", "z": None}),
        (token("m", "path/7"), None, {"a": None, "m": "path/", "z": ""}),
        ("not a token", "nor this", {"a": "", "m": "", "z": ""}),
        (token("m", "\ufffd7"), None, {"a": None, "m": "", "z": ""}),
        (token("é"), None, {"z": None, "é": "", "😀": ""}),
    ],
)
def test_what_a_page_may_have_covered(
    asked: str | None, given: str | None, starts: dict[str, str | None]
) -> None:
    extent = Extent.between(asked, given)
    assert {branch: extent.after(branch) for branch in starts} == starts


@pytest.mark.parametrize(
    ("passed", "branch"),
    [(token("m", "p\ufffd"), "m"), (token("m", "p"), None), (token("m"), None), (None, None), ("odd", None)],
)
def test_a_token_that_cannot_spell_its_path_may_have_skipped_the_rest_of_its_branch(
    passed: str | None, branch: str | None
) -> None:
    skipped = Extent.skipped_by(passed)
    if branch is None:
        assert skipped is None
        return
    assert skipped is not None
    assert (skipped.branch, skipped.until, skipped.into) == (branch, branch, True)
    assert [skipped.after(name) for name in ("a", branch, "z")] == [None, "", None]


@pytest.mark.parametrize(
    "odd", ["bm90IGpzb24=", "e30=", "WzFd", "m", "bnVsbA==", token("m")[:-2] + "*=", "*" + token("m")]
)
def test_a_page_whose_token_is_not_understood_may_have_covered_everything(odd: str) -> None:
    extent = Extent.between(odd, odd)
    assert [extent.after(name) for name in ("a", "m", "z")] == ["", "", ""]


def test_a_token_without_a_path_begins_with_its_branch() -> None:
    nothing = base64.b64encode(json.dumps({"branch": "m", "path": None}).encode()).decode()
    assert Extent.between(nothing, nothing) == Extent("m", "", "m", False)
