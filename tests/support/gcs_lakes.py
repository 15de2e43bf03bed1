"""A lake on Google Cloud Storage with garbage in it, and a collection of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lakefs

from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.lakefs import LakeFSClient
from dredge.runs.payload import from_json
from dredge.runs.run import release_lease
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions, open_reader
from tests.support.lakefs_server import KEY_PAIR, Lake

ORPHANS = {
    "data/odd/a b#c?x=%20": b"orphan",
    "data/odd//x": b"orphan x",
    "data/odd/tail/": b"orphan tail",
    "data/odd/../x": b"orphan dots",
    "data/odd/café\u2028😀": b"orphan text",
    "data/odd/ctrl\x01x": b"orphan ctrl",
}


@dataclass(frozen=True)
class GcsBucket:
    options: StorageOptions
    uri: str


def contents(bucket: GcsBucket) -> dict[str, bytes]:
    reader = open_reader(f"{bucket.uri}/lake/data", bucket.options)
    names = [key for batch in reader.list() for key in batch["key"].to_pylist()]
    return {f"data/{key}": data for key, data in reader.get_many(names)}


def collected(client: LakeFSClient, **more: Any) -> Run:
    """A deleting collection; all objects count as old."""
    config = {
        "repository": "lake",
        "mode": "clean",
        "dry_run": False,
        "unsafe_min_age_seconds": 0,
        "unsafe_grace_seconds": 0,
        "max_delete_percent": None,
        **more,
    }
    run = Run.open(plan_run(from_json(GCConfig, config), None, client).run_uri, None, client)
    run_steps(run, LocalRunner())
    release_lease(run)
    return run


def planted(lake: Lake, orphans: Mapping[str, bytes] = ORPHANS) -> tuple[lakefs.Repository, dict[str, bytes]]:
    """A lake with committed, staged and linked objects, and garbage; returns the objects to keep."""
    repository = lake.repository()
    main = repository.branch("main")
    for number in range(4):
        main.object(f"path {number}/ü%20").upload(b"committed %d" % number)
    main.commit("first")
    main.object("staged").upload(b"staged and not committed")
    main.object("staged, deleted").upload(b"garbage")
    main.object("staged, deleted").delete()
    for key, data in orphans.items():
        lake.writer().put(key, data)
    staying = {found.path: main.object(found.path).reader(mode="rb").read() for found in main.objects()}
    return repository, staying


def client_of(lake: Lake) -> LakeFSClient:
    return LakeFSClient(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
