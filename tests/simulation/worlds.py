"""The worlds, by name. A new one is a module `world_<name>.py` and a line here.

WORLDS["gc"](focus=bug.focus)
"""

from collections.abc import Callable
from functools import partial

from tests.simulation.history import World
from tests.simulation.world_decision import DecisionWorld
from tests.simulation.world_gc import GcWorld
from tests.simulation.world_icechunk import IcechunkWorld
from tests.simulation.world_trash import TrashWorld

WORLDS: dict[str, Callable[..., World]] = {
    "decision": DecisionWorld,
    "gc": GcWorld,
    "gc-wait": partial(GcWorld, waits=True),
    "trash": TrashWorld,
    "icechunk": IcechunkWorld,
}
"""`gc-wait` is `gc` with the default grace; in `gc` all runs delete their own findings."""
