"""Rows of an inventory become those of a listing, and an inventory that lacks what it should have is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.slice_listing import step
from dredge.gc.slice_listing.items import Listed
from dredge.gc.slice_listing.step import ReadConfig
from dredge.storage.model import LISTING_SCHEMA
from dredge.xid import new_descending_xid

CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
OLD, SECOND = CUTOFF - timedelta(days=1), timedelta(seconds=1)
EARLY, LATE = (f"data/{new_descending_xid(CUTOFF + at * SECOND)}/" for at in (-1, 0))
CONFIG = ReadConfig(layout=cast("Any", None), cutoff=CUTOFF, covers_until=CUTOFF, part_rows=10)


def batch(*rows: tuple[str, int | None, datetime | None]) -> pa.RecordBatch:
    fields = [field.with_nullable(True) for field in LISTING_SCHEMA]
    columns = [*zip(*rows, strict=True)] if rows else [(), (), ()]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip([*columns, [None] * len(rows)], fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def sorted_rows(
    total: Listed, slices: set[str], *rows: tuple[str, int | None, datetime | None]
) -> list[list[str]]:
    """Old and young addresses of a batch."""
    found = step._sorted(batch(*rows), CONFIG, total, slices)
    return [
        [key for table in tables for key in table["address"].to_pylist()]
        for tables in (found.old, found.young)
    ]


def test_only_objects_below_data_become_rows_and_the_rest_is_counted() -> None:
    total, slices = Listed(), set[str]()
    rows = [
        ("dummy", 1, OLD),
        ("root", 2, OLD),
        ("x/y", 4, OLD),
        ("_lakefs/a", 8, OLD),
        ("_lakefs0", 16, OLD),
    ]
    assert sorted_rows(total, slices, *rows) == [[], []]
    assert {name: count for name, count in total.counts.items() if count} == {
        "root_objects": 2,
        "root_bytes": 18,
        "elsewhere_objects": 1,
    }
    assert slices == set()
    kept = sorted_rows(
        total, slices, ("data/a", 1, OLD), ("data/s/b", 2, CUTOFF), ("data/t/u/c", 4, OLD), ("other", 1, OLD)
    )
    assert kept == [["data/a", "data/t/u/c"], ["data/s/b"]]
    assert slices == {"data/s/", "data/t/"}
    assert (total.counts["old_objects"], total.counts["young_objects"], total.counts["root_objects"]) == (
        2,
        1,
        3,
    )
    assert sorted_rows(total, slices, ("data/v/d", 1, OLD)) == [["data/v/d"], []]
    assert total.counts["old_objects"] == 3


@pytest.mark.parametrize(
    ("row", "message"), [(("data/odd", None, OLD), "no size"), (("data/odd", 1, None), "no time")]
)
def test_an_object_without_size_or_time_is_named(
    row: tuple[str, int | None, datetime | None], message: str
) -> None:
    with pytest.raises((FormatError, RefusedError), match=f"{message} for 'data/odd'"):
        sorted_rows(Listed(), set(), ("data/a", 1, OLD), row)
    assert sorted_rows(Listed(), set(), ("elsewhere/odd", None, None)) == [[], []], "nothing hangs on it"


def test_young_rows_are_kept_of_slices_that_were_opened_before_the_covered_time() -> None:
    keys = [f"{EARLY}a", f"{LATE}a", "data/plain/a", "data/a", f"{EARLY}b/c"]
    rows = step._of_covered_slices(pa.table({"address": keys}), CUTOFF)
    assert rows["address"].to_pylist() == [f"{EARLY}a", f"{EARLY}b/c"]


MARGIN_HOURS = 24.0


def check(seen: set[str], there: set[str], created: datetime | None) -> None:
    run = SimpleNamespace(
        plan=SimpleNamespace(
            namespace="memory://lake/", config=SimpleNamespace(slice_margin_hours=MARGIN_HOURS)
        )
    )
    contents = SimpleNamespace(source=SimpleNamespace(uri="memory://inventory", created_at=created))
    step._check_complete(cast("Any", run), cast("Any", contents), seen, there)


def test_an_inventory_lacks_nothing_that_was_opened_a_margin_before_it() -> None:
    created = CUTOFF + timedelta(hours=MARGIN_HOURS)
    check({"data/x/"}, {"data/x/", LATE}, created)
    check({"data/x/"}, {"data/x/", "data/plain/"}, created)
    check({EARLY}, {EARLY, LATE}, created)
    with pytest.raises(RefusedError, match=EARLY):
        check({"data/x/", LATE}, {"data/x/", EARLY, LATE}, created)
    check({"data/x/"}, {"data/x/", EARLY}, None)


@pytest.mark.parametrize("created", [None, CUTOFF])
def test_an_inventory_of_nothing_is_one_only_where_nothing_is(created: datetime | None) -> None:
    check(set(), set(), created)
    check({"data/x/"}, set(), created)
    with pytest.raises(RefusedError, match="memory://lake/data/"):
        check(set(), {"data/plain/"}, created)
