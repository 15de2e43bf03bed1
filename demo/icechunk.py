"""`./run demo icechunk`: the design document's sample as a real repository, expired, collected and read back."""

import hashlib
import shutil
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from dredge.icechunk.collection.steps import CollectConfig, collect
from dredge.icechunk.expiration.drawing import draw_history, draw_plan
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.library import library_storage, open_library
from dredge.icechunk.repository import read_history
from dredge.storage import StorageOptions, open_reader
from tests.support.icechunk_expiring import expire

PARENTS = {1: 0, 2: 1, 3: 2, 4: 2, 5: 4, 6: 3, 7: 6, 8: 7, 9: 7, 10: 6, 11: 10, 12: 5, 13: 12, 14: 13}
BRANCHES = {"main": 14, "develop": 11, "test": 9, "qa": 8}
TAGS = {"tag1": 3, "tag2": 5}
EXPIRED_UP_TO = 7
KINDS = ("snapshots", "transactions", "manifests", "chunks")
SHAPE = (len(PARENTS) + 1, 90, 180)
COMMIT_EVERY_SECONDS = 0.01  # times in a history must rise strictly

type Reads = dict[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one expiration with its collection.

    Args:
        freed: numbers of the snapshots with deleted files.
        size_bytes: by which the four folders shrank.
        problems: failed checks.
    """

    freed: frozenset[int]
    size_bytes: int
    problems: tuple[str, ...]


def icechunk_demo(folder: Path) -> bool:
    """Create the sample, expire and collect it without and then with its tags; return whether all checks
    passed.

    Args:
        folder: emptied first; the repository is created in it.
    """
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    uri = f"file://{folder}"
    ids = plant(uri)
    history = read_history(open_reader(uri))
    newest_expired, oldest_kept = (history.snapshots[ids[EXPIRED_UP_TO + turn]].flushed_at for turn in (0, 1))
    threshold = instant((newest_expired + oldest_kept + 1) // 2)
    say(f"1. The design document's sample, written by Icechunk itself: {uri}")
    say(f"   {len(ids)} snapshots, {len(BRANCHES)} branches, {len(TAGS)} tags, {_bytes(folder):,} bytes\n")
    say(draw_history(history))
    say(f"\n2. Expire everything up to snapshot {EXPIRED_UP_TO}, then collect\n")
    first = expire_and_collect(folder, ids, threshold, delete_tags=False)
    say("\n3. The same with expired tags deleted\n")
    second = expire_and_collect(folder, ids, threshold, delete_tags=True)
    problems = [*first.problems, *second.problems]
    for outcome, due in ((first, {6, 7}), (second, {1, 2, 3, 4, 5})):
        if outcome.freed != due:
            problems.append(f"snapshots {_words(outcome.freed)} were freed instead of {_words(due)}")
    for problem in problems:
        say(f"   WRONG {problem}")
    say(f"\n{'FAILED' if problems else 'PASSED'} after {time.monotonic() - started:.1f} s")
    return not problems


def say(text: str) -> None:
    """Print a line of the demo."""
    click.echo(text)
    sys.stdout.flush()


def plant(uri: str) -> dict[int, str]:
    """Write the sample as a repository of spec 1; returns each snapshot's id by its number.

    Every commit writes its own map and overwrites a shared one, so that it has its own chunks, manifest and
    transaction log.
    """
    import icechunk
    import numpy as np
    import zarr

    config = icechunk.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 0
    storage = library_storage(uri, StorageOptions.from_env())
    repository = icechunk.Repository.create(storage, config=config, spec_version=1)
    rng = np.random.default_rng(15)
    ids = {0: repository.lookup_branch("main")}
    for number, parent in PARENTS.items():
        repository.create_branch("writer", ids[parent])
        session = repository.writable_session("writer")
        if parent == 0:
            chunks = (1, *SHAPE[1:])
            zarr.create_array(session.store, name="temperature", shape=SHAPE, chunks=chunks, dtype="f4")
            zarr.create_array(session.store, name="commits", shape=SHAPE[:1], chunks=(1,), dtype="i8")
        temperature = zarr.open_array(session.store, path="temperature")
        temperature[0] = rng.normal(288, 10, SHAPE[1:])
        temperature[number] = rng.normal(288, 10, SHAPE[1:])
        zarr.open_array(session.store, path="commits")[number] = number
        ids[number] = session.commit(f"snapshot {number}")
        repository.delete_branch("writer")
        time.sleep(COMMIT_EVERY_SECONDS)
    repository.reset_branch("main", ids[BRANCHES["main"]])
    for name, tip in BRANCHES.items():
        if name != "main":
            repository.create_branch(name, ids[tip])
    for name, tip in TAGS.items():
        repository.create_tag(name, ids[tip])
    return ids


def read_refs(uri: str) -> Reads:
    """Read every array of every branch and tag with Icechunk; returns tip and a hash of all values by ref."""
    repository = open_library(uri)
    found = {}
    for kind, names in (("branch", repository.list_branches()), ("tag", repository.list_tags())):
        for name in names:
            session = repository.readonly_session(**{kind: name})
            found[f"{kind} {name}"] = f"{session.snapshot_id} {_hash(session.store)}"
    return found


def _hash(store: Any) -> str:
    import zarr

    found = hashlib.sha256()
    for path, array in sorted(zarr.open_group(store, mode="r").arrays()):
        # A missing chunk raises an error, because Icechunk has a reference to it.
        found.update(path.encode() + array[...].tobytes())
    return found.hexdigest()


def expire_and_collect(
    folder: Path,
    ids: dict[int, str],
    threshold: datetime,
    *,
    delete_tags: bool,
) -> Outcome:
    """Expire by the document's rule and collect; reads every ref before and after."""
    uri = f"file://{folder}"
    before, files, size_bytes = read_refs(uri), _snapshots(folder), _bytes(folder)
    applied = expire(uri, threshold, rule="document", delete_expired_tags=delete_tags)
    say(draw_plan(applied.plan))
    config = CollectConfig(
        uri=uri, dry_run=False, unsafe_min_age_seconds=0, unsafe_grace_seconds=0, max_delete_percent=None
    )
    report = collect(config)
    after = read_refs(uri)
    gone = files - _snapshots(folder)
    freed = frozenset(number for number, snapshot in ids.items() if snapshot in gone)
    shrunk = size_bytes - _bytes(folder)
    due = {ref: value for ref, value in before.items() if not (delete_tags and ref.startswith("tag "))}
    problems = [f"{ref} has other content than before" for ref in due if after.get(ref) != due[ref]]
    problems += [f"{ref} is still there" for ref in after if ref not in due]
    if report["outcome"] != "success":
        problems.append(f"the collection's outcome is {report['outcome']}")
    deleted = report["deleted"]["objects"]
    say(f"   Snapshots {_words(freed)} freed: {deleted} objects, {shrunk:,} of {size_bytes:,} bytes")
    held = sum(after.get(ref) == value for ref, value in due.items())
    say(f"   Read back with Icechunk: {held} of {len(due)} refs are unchanged")
    return Outcome(freed, shrunk, tuple(problems))


def _words(numbers: frozenset[int] | set[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers)) or "none"


def _snapshots(folder: Path) -> set[str]:
    return {path.name for path in (folder / "snapshots").iterdir()}


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for kind in KINDS for path in (folder / kind).glob("*"))
