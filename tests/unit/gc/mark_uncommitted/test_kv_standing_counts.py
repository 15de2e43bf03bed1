"""What the answers of a server and the counter of a store say together; silence proves nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted.kv_store import (
    Standing,
    _check_heads,
    _Count,
    _judge,
)


@pytest.mark.parametrize(("found", "fits"), [(4, False), (5, True), (7, True), (9, True), (10, False)])
def test_a_counter_fits_between_what_the_server_said_before_and_after(found: int, fits: bool) -> None:
    assert _Count(5, found, 9).fits is fits


FITS, COPY = _Count(5, 7, 9), _Count(5, 4, 9)


@pytest.mark.parametrize(
    ("counts", "unknown", "doubted", "refuted", "partial"),
    [
        ([FITS, FITS], [], False, False, False),
        ([FITS, COPY], [], True, True, False),
        ([None, COPY], ["branches/new"], True, True, False),
        ([FITS, FITS], ["branches/new"], True, False, True),
        ([FITS, None], [], True, False, False),
        ([None, None], [], True, False, False),
    ],
)
def test_records_are_proved_by_every_count_and_refuted_by_one(
    counts: list[_Count | None], unknown: list[str], doubted: bool, refuted: bool, partial: bool
) -> None:
    records: Any = SimpleNamespace(location="the store", unknown=unknown)
    found = _judge(records, counts)
    assert (found.location, found.refuted, found.partial) == ("the store", refuted, partial)
    assert bool(found.doubt) is doubted
    assert (found == Standing("the store")) is not doubted


@pytest.mark.parametrize(
    ("before", "after", "there", "is_ours"),
    [
        ("c1", "c1", "c1", True),
        ("c1", "c2", "c2", True),
        ("c1", "c2", "c3", True),
        ("c1", None, None, True),
        ("c1", "c1", "c2", False),
        ("c1", "c1", None, False),
    ],
)
def test_a_branch_that_did_not_move_has_its_head_in_the_servers_own_store(
    before: str, after: str | None, there: str | None, is_ours: bool
) -> None:
    records: Any = SimpleNamespace(location="the store", heads={"b": there} if there else {})
    heads = {"b": after} if after else {}
    if is_ours:
        _check_heads(records, {"b": before}, heads)
    else:
        with pytest.raises(RefusedError, match=r"\bb\b.*c1"):
            _check_heads(records, {"b": before}, heads)
