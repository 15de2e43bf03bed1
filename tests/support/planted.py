"""The demo's lake, with garbage and look-alikes of every kind, as small as it gets; and the proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import lakefs

from demo import proof
from demo.kinds import plant_all
from demo.lake import Lake
from dredge.storage import StorageOptions


@dataclass(frozen=True)
class PlantedLake:
    """A lake, what every live object on it reads as, and when it was finished."""

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
        """Fill a new repository."""
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
        """What lies below data/."""
        return proof.list_keys(self.lake)

    def age(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        """Wait until everything planted is older than this."""
        sleep(max(0.0, self.planted_at + seconds - time.monotonic()))

    def assert_swept(self) -> None:
        """All garbage is gone, and all that lives reads back as before."""
        present = self.present()
        assert present & self.garbage == set()
        assert self.live - present == set()
        assert proof.unreadable(self.before, proof.read_everything(self.lake)) == []

    def assert_untouched(self) -> None:
        """Nothing was deleted."""
        present = self.present()
        assert (self.garbage | self.live) - present == set()
        assert proof.unreadable(self.before, proof.read_everything(self.lake)) == []
