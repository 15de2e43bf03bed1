"""Repositories whose commits expire."""

from tests.support.gc import World, make_world


def committed_world(**settings: object) -> tuple[World, str, str]:
    """A committed object, an orphan, two days later."""
    world = make_world(**settings)
    kept = world.upload("a", b"1")
    world.lake.commit()
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    return world, kept, orphan
