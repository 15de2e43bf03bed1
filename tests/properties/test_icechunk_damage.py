"""A random object of a random repository is damaged; a collection without any age deletes nothing that lived.

What the undamaged repository needs must be there afterwards, unless the damage itself took it away. Two damages make
another sound repository, which nothing can tell from the true one, and are not tried: a ref of spec 1 other than main
that is gone or points elsewhere (a deleted, a reset branch), and a repo info that is put back by one version (a change
that did not come about). `DREDGE_CASES` sets the number of random cases a spec.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dredge.errors import DredgeError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.index import live_ids
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.ids import hash_of
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.depth import depth
from tests.support.icechunk import build, local_storage, objects, random_graph
from tests.support.icechunk_expiring import expire

SEEDS = range(depth(2, 60, "DREDGE_CASES"))
DAMAGES_EACH = 25


def flip(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    if data:
        at = rng.randrange(len(data) * 8)
        data[at >> 3] ^= 1 << (at & 7)
    path.write_bytes(bytes(data))


def truncate(rng: random.Random, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def zero(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) + 1)
    length = min(rng.choice([1, 4, 16, 64, len(data)]), len(data) - start)
    data[start : start + length] = bytes(length)
    path.write_bytes(bytes(data))


def swap(rng: random.Random, path: Path) -> None:
    others = [other for other in sorted(path.parent.iterdir()) if other != path and other.is_file()]
    if rng.random() < 0.2:  # of another kind
        others = [other for other in sorted(path.parents[1].glob("*/*")) if other.is_file() and other != path]
    if others:
        other = rng.choice(others)
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)


def delete(rng: random.Random, path: Path) -> None:
    path.unlink()


def duplicate(rng: random.Random, path: Path) -> None:
    others = [other for other in sorted(path.parent.iterdir()) if other.is_file()]
    rng.choice(others).write_bytes(path.read_bytes())


DAMAGES: tuple[Callable[[random.Random, Path], None], ...] = (
    flip,
    flip,
    flip,
    truncate,
    zero,
    swap,
    delete,
    duplicate,
)


def make(rng: random.Random, folder: Path, spec: int) -> None:
    build(local_storage(folder), random_graph(rng, 8), spec)
    if rng.random() < 0.7:
        times = [
            entry.flushed_at for entry in read_history(open_reader(f"file://{folder}")).snapshots.values()
        ]
        expire(f"file://{folder}", instant(rng.choice(times)), delete_expired_tags=rng.random() < 0.3)


def needed(folder: Path) -> dict[str, set[int]]:
    reader = open_reader(f"file://{folder}")
    return {kind: set(ids.tolist()) for kind, ids in live_ids(reader, read_history(reader)).items()}


def there(folder: Path) -> dict[str, set[int]]:
    return {kind: {hash_of(name) for name in names} for kind, names in objects(folder).items()}


def targets(folder: Path, spec: int) -> list[Path]:
    """Give the objects that may be damaged; metadata more often than chunks."""
    found = [path for kind in ("snapshots", "manifests") for path in sorted((folder / kind).iterdir())] * 3
    found += [path for kind in ("chunks", "transactions") for path in sorted((folder / kind).iterdir())]
    if spec == 1:
        return found + [folder / "refs" / "branch.main" / "ref.json"] * 5
    return found + [folder / "repo"] * 10


def put_back(rng: random.Random, folder: Path) -> bool:
    """Replace the repo info by a version before the last one."""
    copies = sorted(path for path in (folder / "overwritten").iterdir())[1:]
    if not copies:
        return False
    (folder / "repo").write_bytes(rng.choice(copies).read_bytes())
    return True


@pytest.mark.hunt
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_damage_makes_a_collection_delete_what_lived(seed: int, spec: int, tmp_path: Path) -> None:
    rng = random.Random(seed * 2 + spec)
    folder = tmp_path / "sound"
    make(rng, folder, spec)
    live = needed(folder)
    outcomes: Counter[str] = Counter()
    for number in range(DAMAGES_EACH):
        copy = tmp_path / f"damaged-{number}"
        shutil.copytree(folder, copy)
        done = "put back"
        if spec == 1 or rng.random() > 0.1 or not put_back(rng, copy):
            path, how = rng.choice(targets(copy, spec)), rng.choice(DAMAGES)
            done = f"{how.__name__} {path.relative_to(copy)}"
            how(rng, path)
        before = there(copy)
        try:
            report = collect(
                CollectConfig(
                    uri=f"file://{copy}",
                    dry_run=False,
                    unsafe_min_age_seconds=0,
                    unsafe_grace_seconds=0,
                    max_delete_percent=None,
                )
            )
            outcomes[report["outcome"]] += 1
        except DredgeError as error:
            outcomes[type(error).__name__] += 1
        lost = {kind: live[kind] & (before[kind] - found) for kind, found in there(copy).items()}
        assert not any(lost.values()), f"{done}: {lost}"
        shutil.rmtree(copy)
    print(dict(outcomes))
    assert outcomes["success"] < DAMAGES_EACH
