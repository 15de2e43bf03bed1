"""What is held and what would go is shown by reason, with examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import RefusedError
from dredge.gc.check_limits import codes
from dredge.gc.check_limits.tally import Tally, _count
from dredge.gc.save_report.report import write_report
from dredge.gc.subtract import reasons
from tests.support.gc import make_world

pytestmark = pytest.mark.usefixtures("without_canaries")


@pytest.mark.parametrize(
    "limit", [{"max_delete_objects": 20}, {"max_delete_bytes": 20}, {"max_delete_percent": 1}]
)
def test_an_exceeded_limit_shows_what_would_go_by_reason_with_ten_examples_each(
    limit: dict[str, int],
) -> None:
    world = make_world(**limit)
    world.upload("a", b"same")
    world.lake.commit()
    plain = {world.orphan(f"data/slice/{number:02d}", b"orphan") for number in range(15)}
    asked = {world.orphan(f"data/slice/asked{number:02d}", b"else") for number in range(3)}
    catalog, name = world.lake.catalog, world.lake.repository
    handed = {
        world.orphan(
            catalog.addresses.get_physical_address(name, "main", "x").removeprefix(
                world.lake.namespace + "/"
            ),
            b"x" * 9,
        )
        for _ in range(12)
    }
    served = world.upload("a", b"same")
    world.age(days=2)
    context = world.plan()
    with pytest.raises(RefusedError):
        world.run(context)
    assert plain | asked | handed | {served} <= world.data()
    write_report(context)
    report = context.folder.read_json("report.json")
    found = {item["reason"]: item for item in report["over_limit"]}
    assert {reason: (item["objects"], item["bytes"]) for reason, item in found.items()} == {
        reasons.UNREFERENCED: (18, 15 * 6 + 3 * 4),
        reasons.NEVER_LINKED: (12, 12 * 9),
    }
    for reason, everything in ((reasons.UNREFERENCED, plain | asked), (reasons.NEVER_LINKED, handed)):
        examples = {example["address"] for example in found[reason]["examples"]}
        assert len(examples) == 10
        assert examples <= everything
    (kept,) = report["held"]
    assert (kept["code"], kept["objects"], kept["bytes"]) == (codes.SERVED, 1, 4)
    assert kept["examples"] == [{"address": served, "size": 4, "branch": "main", "path": "a"}]
    assert served in context.folder.writer.get("report.html").decode()


def test_the_report_shows_ten_examples_of_many_that_are_held() -> None:
    world = make_world(safety={"identical_requests_max": 0}, tuning={"candidate_rows": 4})
    world.upload("a", b"same")
    world.lake.commit()
    orphans = {world.orphan(f"data/slice/{number:02d}", b"else") for number in range(25)}
    world.age(days=2)
    context = world.plan(dry_run=True)
    world.run(context)
    report = context.folder.read_json("report.json")
    (kept,) = report["held"]
    assert (kept["code"], kept["objects"], kept["bytes"]) == (codes.TOO_MANY, 25, 100)
    assert len({example["address"] for example in kept["examples"]} & orphans) == 10
    assert report["over_limit"] == []
    assert [row["objects"] for row in report["rows"] if row["kind"] == "of these"] == [25]


class Told:
    """Holds that are told row by row; None: it may go."""

    def __init__(self, *codes_of_rows: str | None) -> None:
        self.told = codes_of_rows

    def codes_of(self, rows: pa.Table) -> pa.StringArray:
        return pa.array(self.told[: rows.num_rows], pa.string())


def counted(*tables: Sequence[tuple[str, int, str, str | None]]) -> Tally:
    """Count rows of an address, a size, a reason, and the code that holds it."""
    tally = Tally()
    for rows in tables:
        addresses, sizes, why, held = zip(*rows, strict=True)
        table = pa.table({"address": addresses, "size": sizes, "reason": why})
        holds: Any = Told(*held)
        _count(tally, table, holds, {"served": ("main", "path")})
    return tally


def test_what_stays_is_counted_by_code_and_reason_and_of_the_rest_some_are_shown() -> None:
    tally = counted(
        [
            ("a", 1, "old", "x"),
            ("served", 2, "old", "y"),
            ("b", 4, "new", "x"),
            ("free", 8, "old", None),
            ("free too", 16, "new", None),
        ],
        [("c", 32, "new", "x"), ("last", 64, "old", None)],
    )
    assert {code: (held.objects, held.size_bytes) for code, held in tally.by_code.items()} == {
        "x": (3, 37),
        "y": (1, 2),
    }
    assert {why: (held.objects, held.size_bytes) for why, held in tally.by_reason.items()} == {
        "old": (2, 3),
        "new": (2, 36),
    }
    assert tally.cleared_examples == {"old": ["free", "last"], "new": ["free too"]}
    assert tally.by_code["y"].examples == [{"address": "served", "size": 2, "branch": "main", "path": "path"}]
    assert [example["address"] for example in tally.by_code["x"].examples] == ["a", "b", "c"]
    assert (tally.rows_with_hold, tally.objects, tally.size_bytes) == (7, 4, 39)
    assert (tally.objects_of("x", "z"), tally.objects_of("z"), tally.objects_of("y", "x")) == (3, 0, 4)


def test_ten_examples_are_taken_from_as_many_files_as_it_takes() -> None:
    def file(first: int, count: int) -> list[tuple[str, int, str, str | None]]:
        return [
            (f"{number}", 1, "old", code) for number in range(first, first + count) for code in ("x", None)
        ]

    tally = counted(file(0, 7), file(7, 7), file(14, 7))
    expected = [f"{number}" for number in range(10)]
    assert tally.cleared_examples == {"old": expected}
    assert [example["address"] for example in tally.by_code["x"].examples] == expected
