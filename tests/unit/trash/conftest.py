import uuid
from collections.abc import Iterator

import pytest

from dredge.storage import open_writer
from dredge.trash.state import TrashState
from tests.support.kv_world import World
from tests.support.memory_store import forget_memory_store
from tests.support.trash import Ground, Watcher


@pytest.fixture
def world() -> World:
    made = World()
    made.repository("keeper")
    return made


@pytest.fixture
def watcher(world: World) -> Watcher:
    return Watcher(world)


@pytest.fixture
def state() -> Iterator[TrashState]:
    name = f"trash-{uuid.uuid4().hex}"
    yield TrashState(open_writer(f"memory://{name}/state"))
    forget_memory_store(name)


@pytest.fixture
def ground(state: TrashState) -> Ground:
    return Ground(state)
