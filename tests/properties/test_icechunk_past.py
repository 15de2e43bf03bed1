"""On random histories with accidents of refs no collection deletes a commit that no expiration released: a writer of
spec 1 continues after an upgrade, or `refs/` or `repo` of an earlier day is restored.
"""

import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import RefusedError, WitnessError
from dredge.icechunk.collection.witness.judging import forget_lost
from dredge.icechunk.repository import read_history
from dredge.runs.clock import utc_now
from dredge.storage import open_reader
from tests.properties.test_icechunk_collection import used_by
from tests.support.depth import depth
from tests.support.icechunk import quiet
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_past import Past

SEEDS = range(depth(3, 60, "DREDGE_CASES"))
ROUNDS, DAYS = 6, 4.0
"""Together less than `keep_lost_days`, so that lost commits may not be deleted at any time."""
MOVES = ("commit", "commit", "fork", "back up", "put back", "upgrade", "old writer", "expire")


class Accidents:
    """A repository whose refs suffer accidents, and all commits that must stay."""

    def __init__(self, folder: Path, spec: int, chance: random.Random) -> None:
        self.past, self.chance = Past(folder / "repo", spec), chance
        self.backup = folder / "backup"
        self.writer: Any = None  # with a repository of spec 1, as it was before the upgrade
        self.made: set[str] = set()
        self.refused = self.deleted = 0
        self.commit()

    @property
    def spec(self) -> int:
        return 2 if (self.past.folder / "repo").exists() else 1

    def move(self, name: str) -> None:
        getattr(self, name.replace(" ", "_"))()

    def commit(self) -> None:
        self.made.add(self.past.commit(self.chance.choice(sorted(self.past.library.list_branches()))))

    def fork(self) -> None:
        tips = [entry.id for entry in self.past.library.ancestry(branch="main")]
        self.past.library.create_branch(f"b{len(self.made)}-{self.past.count}", self.chance.choice(tips))
        self.past.count += 1

    def back_up(self) -> None:
        shutil.rmtree(self.backup, ignore_errors=True)
        for name in self._names():
            _copy(self.past.folder / name, self.backup / name)

    def put_back(self) -> None:
        names = self._names()
        if not (self.backup / names[0]).exists():
            return
        for name in names[: self.chance.choice((1, len(names)))]:  # later copies of the repo info may stay
            _copy(self.backup / name, self.past.folder / name)

    def _names(self) -> tuple[str, ...]:
        return ("refs",) if self.spec == 1 else ("repo", "overwritten")

    def upgrade(self) -> None:
        if self.spec == 1:
            self.writer = self.past.library
            leaves = self.chance.random() < 0.7
            quiet().upgrade_icechunk_repository(
                self.past.library, dry_run=False, delete_unused_v1_files=not leaves
            )
            self.writer = self.writer if leaves else None

    def old_writer(self) -> None:
        if self.writer is not None:
            self.made.add(self.past.commit("main", self.writer))

    def expire(self) -> None:
        with suppress(RefusedError):  # a later copy of the repo info exists
            before = read_history(open_reader(self.past.uri)).live()
            if self.chance.random() < 0.5:
                self.past.library.expire_snapshots(utc_now())
            else:
                expire(self.past.uri, utc_now())
            self.made -= before - read_history(open_reader(self.past.uri)).live()

    def collect(self, mode: str) -> None:
        try:
            self.deleted += self.past.collect(mode=mode)["deleted"]["objects"]
        except WitnessError:
            self.refused += 1
            if self.chance.random() < 0.5:
                forget_lost(self.past.uri, "accepted")
        except RefusedError:  # a later copy of the repo info
            self.refused += 1

    def check(self) -> None:
        """Every commit that no expiration released is there, with all its objects."""
        there = self.past.objects()
        assert self.made <= there["snapshots"]
        needed = used_by(self.past.folder, set(self.made))
        assert needed["manifests"] <= there["manifests"]
        assert needed["chunks"] <= there["chunks"]


def _copy(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


@pytest.mark.hunt
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_collection_deletes_a_commit_that_no_expiration_released(
    seed: int, spec: int, tmp_path: Path
) -> None:
    chance = random.Random(seed * 2 + spec)
    world = Accidents(tmp_path, spec, chance)
    for _ in range(ROUNDS):
        for name in chance.choices(MOVES, k=4):
            world.move(name)
        world.past.pass_days(chance.uniform(0.5, DAYS))
        world.collect(chance.choice(("clean", "auto")))
        world.check()
