"""A repository on which expired snapshots are garbage, and its collection step by step."""

import json
import random
import shutil
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.list_candidates import listing
from dredge.icechunk.collection.steps import (
    Run,
    bulk_delete,
    check_limits,
    collect,
    list_candidates,
    mark,
    plan_collection,
    run_steps,
)
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.format.metadata import instant, parse_snapshot
from dredge.icechunk.ids import ALPHABET, encode_id
from dredge.icechunk.repository import read_history
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader, open_writer
from tests.support.icechunk import build, graph_of, local_storage, objects, quiet, scenarios
from tests.support.icechunk_expiring import expire

SAMPLE = scenarios()[0]
"""The design document's history; expired by `expire_middle`, 1, 2, 4, 6 and 7 are garbage."""
_HERE = LocalRunner()


class Repo:
    def __init__(self, folder: Path, ids: Mapping[str, str] | None = None) -> None:
        self.folder, self.ids, self.uri = folder, ids or {}, f"file://{folder}"

    @property
    def library(self) -> Any:
        return quiet().Repository.open(local_storage(self.folder))

    @property
    def spec(self) -> int:
        return read_history(open_reader(self.uri)).spec_version

    def config(self, **changes: Any) -> CollectConfig:
        """A run deleting at once, without the usual safety margins."""
        settings = {
            "mode": "clean",
            "dry_run": False,
            "unsafe_min_age_seconds": 0,
            "unsafe_grace_seconds": 0,
            "keep_lost_days": 0,
            "max_delete_percent": None,
        } | changes
        return CollectConfig(uri=self.uri, **settings)

    def plan(self, **changes: Any) -> Run:
        return Run.open(plan_collection(self.config(**changes)).run_uri)

    def listed(self, **changes: Any) -> Run:
        run = self.plan(**changes)
        mark(run, _HERE)
        list_candidates(run, _HERE)
        return run

    def guarded(self, **changes: Any) -> Run:
        """Run the steps before the deletion."""
        run = self.listed(**changes)
        check_limits(run)
        return run

    def sweep(self, run: Run) -> StepSummary:
        return bulk_delete(run, _HERE)

    def metadata(self) -> dict[str, bytes]:
        """Dredge's own files in the repository, by key."""
        reader = open_writer(f"{self.uri}/_dredge")
        return {key: reader.get(key) for batch in reader.list("") for key in batch["key"].to_pylist()}

    def collect(self, **changes: Any) -> dict[str, Any]:
        return collect(self.config(**changes), _HERE)

    def collected(self, folder: Path) -> dict[str, set[str]]:
        """The objects left by an undisturbed collection of a copy below a folder."""
        shutil.copytree(self.folder, folder / "copy")
        run_steps(Repo(folder / "copy", self.ids).plan(), _HERE)
        return objects(folder / "copy")


def expire_middle(uri: str, ids: Mapping[str, str], **where: Any) -> None:
    """Expire everything older than snapshot 8 of `SAMPLE`."""
    history = read_history(open_reader(uri, where.get("options")))
    middle = (history.snapshots[ids["7"]].flushed_at + history.snapshots[ids["8"]].flushed_at) // 2
    expire(uri, instant(middle), **where)


def expired_sample(folder: Path, spec: int) -> Repo:
    ids = build(local_storage(folder), graph_of(SAMPLE), spec)
    expire_middle(f"file://{folder}", ids)
    return Repo(folder, ids)


def change_number(session: Any, value: int) -> None:
    import zarr

    zarr.open_array(session.store, path="numbers")[0] = value


def main_manifest(folder: Path) -> Path:
    """Return the only manifest of main's tip."""
    tip = read_history(open_reader(f"file://{folder}")).branches["main"]
    (info,) = parse_snapshot((folder / "snapshots" / tip).read_bytes(), tip).manifests
    return folder / "manifests" / info.id


def until_shut(run: Run) -> None:
    """Wait until the driver of a sweep has seen its reason to stop, and no worker trusts an earlier look."""
    folder, is_open = Path(run.folder.uri.removeprefix("file://"), "bulk_delete/_watch"), True
    while is_open:
        time.sleep(run.plan.config.safety.gate_every_seconds)
        is_open = all(json.loads(path.read_text())["open"] for path in folder.glob("*.json"))


def split_local_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """List local folders in ranges too, like other stores."""
    bounds = ["", *sorted(first + second for first in ALPHABET for second in "0G")[1:], ""]
    assert len(list(pairwise(bounds))) == 64
    monkeypatch.setattr(listing, "bounds_for", lambda *_: bounds)


def commit(repo: Repo, value: int) -> str:
    """Commit another number on main; returns the snapshot."""
    session = repo.library.writable_session("main")
    change_number(session, value)
    return str(session.commit(f"number {value}"))


def expire_before(repo: Repo, snapshot: str) -> None:
    expire(
        repo.uri,
        instant(read_history(open_reader(repo.uri)).snapshots[snapshot].flushed_at),
        delete_expired_branches=True,
        delete_expired_tags=True,
    )


def grown(repo: Repo) -> Repo:
    """Collect, commit twice, and expire all but the last commit."""
    collect(repo.config())
    commit(repo, 100)
    expire_before(repo, commit(repo, 101))
    return repo


def optimized(repo: Repo, **changes: Any) -> Run:
    run = Run.open(plan_collection(repo.config(mode="auto", **changes)).run_uri)
    assert run.plan.mode == "optimized", run.plan.why_mode
    return run


def flip_chunk_id(folder: Path, rng: random.Random) -> str:
    """Flip a bit of a chunk's id in main's manifest; returns the true id."""
    path = main_manifest(folder)
    opened = open_file(path.read_bytes(), path.name, FileType.MANIFEST)
    (array,) = parse_manifest(path.read_bytes(), path.name).arrays
    raw = rng.choice(array.ids[array.kind == NATIVE].tolist())
    at = opened.body.index(bytes(raw)) + rng.randrange(8)
    body = bytearray(opened.body)
    body[at] ^= 1 << rng.randrange(8)
    path.write_bytes(close_file(opened.header, bytes(body)))
    return encode_id(bytes(raw))
