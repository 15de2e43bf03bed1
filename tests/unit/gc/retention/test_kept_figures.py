"""What the report says each kept set keeps."""

from __future__ import annotations

from tests.support.gc import make_world
from tests.support.policies import history, policy


def test_the_report_tells_what_each_set_keeps() -> None:
    world = make_world(policy=policy("name: recent, last: 3", "name: none, last: 1"))
    world.rules(1)
    history(world, 5)
    context = world.plan()
    world.run(context)
    report = context.folder.read_json("report.json")
    (row,) = (row for row in report["rows"] if row["kind"].startswith("policy: "))
    assert (row["kind"], row["verdict"], row["objects"]) == ("policy: recent", "kept", 2)
    assert row["size_bytes"] == 2 * len("main a 0")
    assert [found["name"] for found in report["kept"]] == [
        "own walk",
        "tags",
        "policy: recent",
        "policy: none",
    ]
    assert "policy: recent" in context.folder.writer.get("report.html").decode()
