"""Whole clean runs in memory: what goes, and above all what stays."""

from __future__ import annotations

from tests.support.gc import make_world


def test_a_run_deletes_an_orphan_and_nothing_else() -> None:
    world = make_world()
    committed = world.upload("a", b"1")
    world.lake.commit()
    staged = world.upload("b", b"2")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    young = world.orphan("data/young")
    report = world.collect()
    assert world.data() == {committed, staged, young}
    assert orphan not in world.data()
    assert report.counts["deleted_objects"] == 1
    world.assert_readable()
