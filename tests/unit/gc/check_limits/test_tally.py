"""What is held and what would go is shown by reason, with examples."""

from __future__ import annotations

import pytest

from dredge.errors import RefusedError
from dredge.gc.check_limits.holds import SERVED
from dredge.gc.save_report.report import write_report
from dredge.gc.subtract.candidates import NEVER_LINKED, UNREFERENCED
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
        UNREFERENCED: (18, 15 * 6 + 3 * 4),
        NEVER_LINKED: (12, 12 * 9),
    }
    for reason, everything in ((UNREFERENCED, plain | asked), (NEVER_LINKED, handed)):
        examples = {example["address"] for example in found[reason]["examples"]}
        assert len(examples) == 10
        assert examples <= everything
    (kept,) = report["held"]
    assert (kept["code"], kept["objects"], kept["bytes"]) == (SERVED, 1, 4)
    assert kept["examples"] == [{"address": served, "size": 4, "branch": "main", "path": "a"}]
    assert served in context.folder.writer.get("report.html").decode()
