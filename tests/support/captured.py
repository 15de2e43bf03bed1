"""The small repository written by a real server, loaded under a catalog."""

import base64
import csv
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dredge.storage import ObjectWriter, open_writer
from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.kv import open_store
from tests.support.lakes import Lake, ManualClock, no_sleep
from tests.support.memory_store import MemoryStore, memory_store

FOLDER = Path(__file__).parents[1] / "fixtures" / "lakefs" / "repo-small"
REPOSITORY = "basic-fixture"
NAMESPACE = "s3://lake/basic/basic-fixture"
_numbers = itertools.count()


def truth() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "truth.json").read_text())
    return found


def kv_rows() -> Iterator[tuple[bytes, bytes, bytes]]:
    """The server's rows: partition, key, value."""
    with (FOLDER / "kv.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            yield row["partition"].encode(), row["key"].encode(), base64.b64decode(row["value_b64"])


def captured_lake(settings: Settings | None = None) -> Lake:
    """A catalog on a copy of the server's data, at the time of the fixture."""
    clock = ManualClock(datetime.fromtimestamp(truth()["built_at"], UTC))
    name = f"captured-{next(_numbers)}"
    _load_objects(memory_store(name))

    def open_namespace(uri: str) -> ObjectWriter:
        assert uri == NAMESPACE
        return open_writer(f"memory://{name}")

    kv = open_store("memory://")
    for partition, key, value in kv_rows():
        kv.set(partition, key, value)
    settings = settings or Settings(background=False)
    catalog = Catalog(kv, open_namespace, clock, settings, sleep=no_sleep)
    return Lake(catalog, kv, clock, NAMESPACE, REPOSITORY, settings, open_namespace)


def _load_objects(store: MemoryStore) -> None:
    with (FOLDER / "listing.csv").open() as lines:
        for row in csv.DictReader(lines):
            content = (FOLDER / "namespace" / row["key"]).read_bytes()
            store.write(row["key"], content, datetime.fromisoformat(row["last_modified"]))


def captured_answer(name: str) -> tuple[int, Any]:
    found = json.loads((FOLDER / "api" / f"{name}.json").read_text())
    return found["status"], found["body"]
