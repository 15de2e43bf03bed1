"""On random histories an optimized collection leaves what a clean one leaves at that moment, but for what only a
listing of chunks can see; and every ref reads back as before.

The library writes: commits, amends, rebases, branches, tags, resets, expirations, upgrades, sessions that never commit,
and collections of its own; in each history every one of these moves is made. Runs and expirations are killed anywhere:
between steps, between two deletions, before any write of theirs. `DREDGE_CASES` sets the number of random histories a
spec.
"""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import DredgeError
from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import CollectConfig, Tuning
from dredge.icechunk.collection.run import StateStore
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.ids import encode_ids
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json, to_json
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support.depth import depth
from tests.support.folder_store import DiedError, dying_before_a_write, dying_while_deleting
from tests.support.icechunk import local_storage, objects, quiet
from tests.support.icechunk_expiring import expire

SEEDS = range(depth(1, 60, "DREDGE_CASES"))
AGE_SECONDS = 3600.0
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
CELLS = 6
ROUNDS = 4
MOVES = ("amend", "rebase", "abandon", "fork", "fork", "unfork", "reset", "upgrade", "others_collect")


class World:
    def __init__(self, folder: Path, spec: int, chance: random.Random) -> None:
        self.folder, self.chance, self.uri = folder, chance, f"file://{folder}"
        config = quiet().RepositoryConfig.default()
        config.inline_chunk_threshold_bytes = 0
        quiet().Repository.create(local_storage(folder), config=config, spec_version=spec)
        self.ever_named: set[str] = set()
        self.modes: list[str] = []
        self.number = 0
        self.made: Counter[str] = Counter()

    @property
    def library(self) -> Any:
        return quiet().Repository.open(local_storage(self.folder))

    def branch(self) -> str:
        return str(self.chance.choice(sorted(self.library.list_branches())))

    def write(self, session: Any) -> None:
        import zarr

        name = f"a{self.chance.randrange(3)}"
        group = zarr.open_group(session.store, mode="a")
        if name in group and self.chance.random() < 0.15:
            del group[name]
            return
        if name not in group:
            group.create_array(name, shape=(CELLS,), chunks=(1,), dtype="i8", compressors=None)
        for _ in range(self.chance.choice((1, 1, 2, CELLS))):
            self.number += 1
            group[name][self.chance.randrange(CELLS)] = self.number

    def commit(self) -> None:
        session = self.library.writable_session(self.branch())
        self.write(session)
        if session.has_uncommitted_changes:
            session.commit("some")

    def amend(self) -> None:
        library = self.library
        if read_history(open_reader(self.uri)).spec_version == 1:
            return
        branch = self.branch()
        if len(list(library.ancestry(branch=branch))) > 1:
            session = library.writable_session(branch)
            self.write(session)
            if session.has_uncommitted_changes:
                session.amend("other")

    def rebase(self) -> None:
        library, branch = self.library, self.branch()
        first, second = library.writable_session(branch), library.writable_session(branch)
        for session, name in ((first, "left"), (second, "right")):
            import zarr

            root = zarr.open_group(session.store, mode="a")
            self.number += 1
            if f"{name}{self.number}" not in root:
                array = root.create_array(
                    f"{name}{self.number}", shape=(2,), chunks=(1,), dtype="i8", compressors=None
                )
                array[0] = self.number
        first.commit("first")
        try:
            second.commit("second", rebase_with=quiet().ConflictDetector())
        except quiet().IcechunkError:
            return  # both made the root group

    def abandon(self) -> None:
        self.write(self.library.writable_session(self.branch()))

    def fork(self) -> None:
        library = self.library
        tips = [entry.id for entry in library.ancestry(branch=self.branch())]
        self.number += 1
        make = library.create_branch if self.chance.random() < 0.6 else library.create_tag
        make(f"r{self.number}", self.chance.choice(tips))

    def unfork(self) -> None:
        library = self.library
        branches = sorted(set(library.list_branches()) - {"main"})
        tags = sorted(library.list_tags())
        if branches and self.chance.random() < 0.6:
            library.delete_branch(self.chance.choice(branches))
        elif tags:
            library.delete_tag(self.chance.choice(tags))

    def reset(self) -> None:
        library, branch = self.library, self.branch()
        library.reset_branch(branch, self.chance.choice([e.id for e in library.ancestry(branch=branch)]))

    def expire(self, by_library: bool) -> None:
        history = read_history(open_reader(self.uri))
        times = sorted(entry.flushed_at for entry in history.snapshots.values())
        threshold = instant(self.chance.choice(times) + 1)
        flags = {
            "delete_expired_branches": self.chance.random() < 0.3,
            "delete_expired_tags": self.chance.random() < 0.3,
        }
        if by_library:
            self.library.expire_snapshots(threshold, **flags)
            return
        rule = self.chance.choice(("document", "spec_v1")) if history.spec_version == 1 else None
        expire(self.uri, threshold, rule=rule, **flags)

    def upgrade(self) -> None:
        if read_history(open_reader(self.uri)).spec_version == 1:
            quiet().upgrade_icechunk_repository(self.library, dry_run=False, delete_unused_v1_files=True)

    def lease_ends(self) -> None:
        """The lease of a dead process ends some day; its number stays."""
        path = self.folder / "_dredge" / "lease.json"
        if path.exists():
            held = from_json(LeaseGrant, json.loads(path.read_bytes()))
            path.write_text(json.dumps(to_json(replace(held, expires_at=LONG_AGO))))

    def others_collect(self) -> None:
        if self.chance.random() < 0.5:
            self.library.garbage_collect(datetime.now(UTC) - timedelta(seconds=AGE_SECONDS))

    def pass_time(self) -> None:
        """Make everything two hours older."""
        for kind in ("snapshots", "transactions", "manifests", "chunks"):
            for path in (self.folder / kind).glob("*"):
                known = path.stat().st_mtime_ns - int(2 * AGE_SECONDS * 1e9)
                os.utime(path, ns=(known, known))

    def age_own_files(self) -> None:
        """Make all that Dredge keeps ten days older, so that the next complete run removes what nobody needs."""
        for path in (self.folder / "_dredge").rglob("*"):
            if path.is_file() and path.name != "lease.json":
                known = path.stat().st_mtime_ns - int(timedelta(days=10).total_seconds() * 1e9)
                os.utime(path, ns=(known, known))

    def make(self, name: str, move: Callable[[], None]) -> None:
        before = self._times()
        move()
        self.made[name] += before != self._times()

    def _times(self) -> dict[str, int]:
        files = (path for path in self.folder.rglob("*") if path.is_file() and "_dredge" not in path.parts)
        return {str(path): path.stat().st_mtime_ns for path in files}

    def note_names(self) -> None:
        for path in (self.folder / "manifests").glob("*"):
            for array in parse_manifest(path.read_bytes(), path.name).arrays:
                self.ever_named |= set(encode_ids(array.ids[array.kind == 0]).to_pylist())

    def contents(self) -> dict[str, Any]:
        import zarr

        library, found = self.library, {}
        refs = [("branch", name) for name in library.list_branches()]
        for kind, name in refs + [("tag", name) for name in library.list_tags()]:
            store = library.readonly_session(**{kind: name}).store
            try:
                root = zarr.open_group(store, mode="r")
            except FileNotFoundError:
                continue
            found[f"{kind} {name}"] = {key: array[:].tolist() for key, array in root.arrays()}
        return found

    def config(self, mode: str, folder: Path | None = None, **changes: Any) -> CollectConfig:
        tuning = Tuning(
            snapshots_per_task=self.chance.choice((2, 5000)),
            refs_per_task=self.chance.choice((10, 4_000_000)),
            ids_per_shard=self.chance.choice((8, 8 << 20)),
            candidate_rows=self.chance.choice((3, 100_000)),
            delete_keys=self.chance.choice((1, 32_000)),
            counted_layers_max=self.chance.choice((2, 24)),
            index_parts_max=self.chance.choice((1, 2, 64)),
        )
        settings = {
            "dry_run": False,
            "unsafe_min_age_seconds": AGE_SECONDS,
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
            "tuning": tuning,
        }
        uri = self.uri if folder is None else f"file://{folder}"
        return CollectConfig(uri=uri, mode=mode, **(settings | changes))


def collect_or_die(config: CollectConfig, kill_at: int) -> bool:
    """Do a collection step by step and be killed before the step of this number."""
    run = steps.Run.open(steps.plan_collection(config).run_uri)
    runner = LocalRunner()
    todo: Sequence[Callable[[], object]] = (
        lambda: steps.mark(run, runner),
        lambda: steps.list_candidates(run, runner),
        lambda: steps.check_limits(run),
        lambda: steps.bulk_delete(run, runner),
        lambda: steps.verify(run),
        lambda: steps.save_report(run),
    )
    try:
        for number, step in enumerate(todo):
            if number == kill_at:
                return False
            step()
        return True
    except (DiedError, DredgeError):
        return False
    finally:
        steps.release_lease(run)


def kill_an_expiration(world: World) -> None:
    """Start an expiration that dies before any of its writes."""
    with suppress(DiedError), dying_before_a_write(world.chance.randrange(1, 6)):
        world.expire(by_library=False)
    world.lease_ends()


def kill_a_run(world: World) -> None:
    """Start a run that dies: between steps, before a write, or while it deletes."""
    mode = world.chance.choice(("auto", "auto", "clean"))
    if world.chance.random() < 0.3:
        collect_or_die(world.config(mode), world.chance.randrange(1, 6))
        return
    if world.chance.random() < 0.5:
        config = world.config(mode)
        with suppress(DiedError), dying_before_a_write(world.chance.randrange(5, 80)):
            collect_or_die(config, 99)
        world.lease_ends()
        return
    with dying_while_deleting(world.chance.choice((0, 1, 3, 8, 20))):
        collect_or_die(world.config(mode), 99)


def collect_beside_a_clean_run(world: World, copies: Path) -> None:
    world.note_names()
    twin = copies / f"twin{world.number}"
    shutil.copytree(world.folder, twin)
    before = world.contents()
    clean = steps.collect(world.config("clean", twin))
    report = steps.collect(world.config("auto"))
    assert report["outcome"] == clean["outcome"] == "success"
    world.modes.append(report["mode"])
    ours, theirs = objects(world.folder), objects(twin)
    for kind in ("snapshots", "transactions", "manifests"):
        assert ours[kind] == theirs[kind], kind
    assert ours["chunks"] >= theirs["chunks"]
    left = (ours["chunks"] - theirs["chunks"]) & world.ever_named
    assert not left, f"{left} were named once"
    assert report["mode"] == "optimized" or ours == theirs
    assert world.contents() == before
    shutil.rmtree(twin)


@pytest.mark.hunt
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_optimized_run_leaves_what_a_clean_run_leaves(seed: int, spec: int, tmp_path: Path) -> None:
    chance = random.Random(seed * 2 + spec)
    world = World(tmp_path / "repo", spec, chance)
    moves = [(name, partial(getattr(World, name), world)) for name in MOVES]
    moves += [
        ("expire", partial(world.expire, by_library=True)),
        ("expire", partial(world.expire, by_library=False)),
    ]
    for _ in range(3):
        world.make("commit", world.commit)
    chance.shuffle(moves)
    for number in range(ROUNDS):
        for name, move in moves[number::ROUNDS]:
            for _ in range(chance.choice((0, 1, 2))):
                world.make("commit", world.commit)
            world.make(name, move)
            world.note_names()
            if chance.random() < 0.4:
                world.pass_time()
        if chance.random() < 0.3:
            kill_an_expiration(world)
        if chance.random() < 0.5:
            kill_a_run(world)
        if chance.random() < 0.3:
            steps.collect(world.config("auto", dry_run=True))
        if chance.random() < 0.3:
            world.age_own_files()
        collect_beside_a_clean_run(world, tmp_path)
    state = open_state(world.uri)
    assert StateStore(state).newest() is not None
    make_lease(state).acquire("nobody holds it")
    assert "optimized" in world.modes
