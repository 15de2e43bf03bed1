"""The demo's lake, with garbage and look-alikes of every kind, as small as possible; and the checks."""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lakefs

from demo import proof
from demo.kinds import plant_all
from demo.lake import Lake
from dredge.storage import StorageOptions
from lakefs_embedded.kv import MemoryKV
from tests.support.lakefs_server import Lake as Server
from tests.support.lakefs_server import lakefs_server


@dataclass(frozen=True)
class PlantedLake:
    """A lake, the content of every live object, and the time of its completion."""

    lake: Lake
    before: proof.Reads
    planted_at: float

    @classmethod
    def plant(
        cls,
        client: lakefs.Client,
        namespace: str,
        repository: str = "lake",
        options: StorageOptions | None = None,
    ) -> PlantedLake:
        lake = Lake.create(client, repository, namespace, options=options)
        plant_all(lake, 0.01)
        return cls(lake, proof.read_everything(lake), time.monotonic())

    @property
    def garbage(self) -> set[str]:
        return {thing.address for thing in self.lake.planted.values() if not thing.live}

    @property
    def live(self) -> set[str]:
        return {thing.address for thing in self.lake.planted.values() if thing.live}

    def present(self) -> set[str]:
        return proof.list_keys(self.lake)

    def age(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait until all planted objects are older than this."""
        sleep(max(0.0, self.planted_at + seconds - time.monotonic()))

    def assert_swept(self) -> None:
        """All garbage is deleted, and all live objects are readable as before."""
        present = self.present()
        assert present & self.garbage == set()
        assert self.live - present == set()
        assert proof.unreadable(self.before, proof.read_everything(self.lake)) == []

    def assert_untouched(self) -> None:
        present = self.present()
        assert (self.garbage | self.live) - present == set()
        assert proof.unreadable(self.before, proof.read_everything(self.lake)) == []


class PlantedServer:
    """A server with a planted lake, shared by several tests and reset for each."""

    def __init__(self, folder: Path, server: Server, kv: MemoryKV) -> None:
        self.server = server
        self._planted = PlantedLake.plant(server.client, server.namespace("lake"))
        self._kv, self._records = kv, copy.deepcopy(kv._partitions)
        self._objects, self._kept = folder / "objects", folder / "kept"
        shutil.copytree(self._objects, self._kept)

    def planted(self) -> PlantedLake:
        """Reset records and objects, with their times, to the planted state; returns the lake."""
        shutil.rmtree(self._objects)
        shutil.copytree(self._kept, self._objects)
        with self._kv._lock:
            self._kv._partitions = copy.deepcopy(self._records)
        return self._planted


@contextmanager
def planted_server(folder: Path) -> Iterator[PlantedServer]:
    """Run a server and plant a lake on it, once for any number of tests."""
    with MemoryKV() as kv, lakefs_server(folder, kv=kv) as server:
        yield PlantedServer(folder, server, kv)
