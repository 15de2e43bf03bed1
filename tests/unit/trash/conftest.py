from __future__ import annotations

from pathlib import Path

import pytest

from dredge.storage import open_writer
from dredge.trash.state import TrashState
from tests.support.kv_world import World
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
def state(tmp_path: Path) -> TrashState:
    return TrashState(open_writer(f"file://{tmp_path}/state"))


@pytest.fixture
def ground(state: TrashState) -> Ground:
    return Ground(state)
