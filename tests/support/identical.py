"""Shared helpers of tests about identical content."""

from dredge.gc.run import Run
from tests.support.gc import World


def shown(context: Run) -> list[str]:
    return [item["address"] for item in context.folder.read_json("guard.json")["identical_live"]]


def held(context: Run) -> dict[str, int]:
    return {item["code"]: item["objects"] for item in context.folder.read_json("guard.json")["held"]}


def many(world: World, count: int, content: bytes = b"same") -> None:
    """Committed objects of one size, close together."""
    for number in range(count):
        world.upload(f"many/{number:05d}", content)
    world.lake.commit()
