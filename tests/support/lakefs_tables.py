"""Table files of a real server with their expected content, in one form for all fixtures."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

LAKEFS = Path(__file__).parents[1] / "fixtures/lakefs"
CORRUPT = LAKEFS / "tables/corrupt"


@dataclass(frozen=True)
class Fixture:
    """A file and its expected content; `dump` marks files of a refs dump."""

    name: str
    path: Path
    id: str
    kind: str
    dump: bool

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        if self.path.parent.name == "_lakefs":
            return next(t["records"] for t in _repo_small() if t["id"] == self.id)
        if (parquet := self.path.with_suffix(".parquet")).exists():
            import pyarrow.parquet as pq

            rows = pq.read_table(parquet).to_pylist()
            for row in rows:
                if "metadata" in row:
                    row["metadata"] = json.loads(row["metadata"])
            return rows
        return [json.loads(line) for line in self.path.with_suffix(".jsonl").read_text().split("\n") if line]


def key_bytes(key: str | dict[str, str]) -> bytes:
    return base64.b64decode(key["b64"]) if isinstance(key, dict) else key.encode()


def fixtures(kind: str | None = None, *, dumps: bool = True) -> list[Fixture]:
    found = [item for item in _all() if kind in (None, item.kind) and (dumps or not item.dump)]
    assert len(found) > 1
    return found


def _all() -> Iterator[Fixture]:
    for path in sorted((LAKEFS / "tables").glob("*.sst")) + sorted(
        (LAKEFS / "tables/refs_dump").glob("*.sst")
    ):
        facts = json.loads(path.with_suffix(".json").read_text())
        kind = facts["properties"]["type"]
        yield Fixture(path.stem, path, facts["id"], kind, path.parent.name == "refs_dump")
    for table in _repo_small():
        path = LAKEFS / "repo-small/namespace/_lakefs" / table["id"]
        yield Fixture(table["id"][:12], path, table["id"], table["type"], False)


def _repo_small() -> list[dict[str, Any]]:
    return json.loads((LAKEFS / "repo-small/tables.json").read_text())


def fixture(name: str) -> Fixture:
    return next(item for item in _all() if item.name == name)
