"""Slices: which can be left out, and how a long listing is cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.gc.slice_listing import slice_time
from dredge.gc.slice_listing.slices import OUTSIDE, Item, cut_rest, is_young
from dredge.storage.keys import in_range
from dredge.xid import new_descending_xid

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def opened(at: datetime) -> str:
    return f"data/{new_descending_xid(at)}/"


@pytest.mark.parametrize(
    "folder", ["data/!ab/", "data/plain/", "data/", "data/g4uk6erfnfus73frbnq/", "data/G4UK6ERFNFUS73FRBNQG/"]
)
def test_a_folder_that_is_no_slice_has_no_time_and_is_always_listed(folder: str) -> None:
    assert slice_time(folder) is None
    assert not is_young(folder, NOW - timedelta(days=1), NOW)


def test_without_an_age_every_slice_is_listed() -> None:
    assert not is_young(opened(NOW), NOW, NOW)


keys = st.lists(
    st.text(alphabet="019abvz~/é\x00", min_size=1, max_size=6), min_size=2, max_size=40, unique=True
)


@given(keys, st.integers(1, 39), st.booleans())
def test_a_cut_rest_tiles_what_is_left_exactly(names: list[str], seen: int, bounded: bool) -> None:
    names = sorted("data/x/" + name for name in names)
    seen = min(seen, len(names) - 1)
    item = Item("data/x/", stop_before=names[-1] if bounded else "")
    if bounded and names[seen - 1] >= names[-1]:
        return
    rest = cut_rest(item, names[0], names[seen - 1])
    wanted = [name for name in names[seen:] if in_range(name, "", item.stop_before)]
    found = [name for piece in rest for name in names if in_range(name, piece.start_after, piece.stop_before)]
    assert found == wanted  # in order, nothing twice, nothing missing


def test_outside_leaves_out_data_and_metadata_and_nothing_else() -> None:
    def is_outside(key: str) -> bool:
        return any(in_range(key, item.start_after, item.stop_before) for item in OUTSIDE)

    for key in (
        "dummy",
        "data",
        "data!",
        "data0",
        "datax/y",
        "_lakefs",
        "_lakefs0x",
        "aaa",
        "zzz",
        "symlinks/x",
    ):
        assert is_outside(key), key
    for key in ("data/x", "data/", "_lakefs/x", "data/x/y"):
        assert not is_outside(key), key
