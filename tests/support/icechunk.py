"""Histories for the tests of Icechunk: as plain values, and as repositories written by the library."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dredge.icechunk.format.metadata import SnapshotEntry
from dredge.icechunk.history import History

ROOT_ID = "1CECHNKREP0F1RSTCMT0"
"""The first snapshot of every repository made by Icechunk 1.0 or newer."""

SCENARIOS = Path(__file__).parents[1] / "fixtures" / "icechunk" / "scenarios.json"


@dataclass(frozen=True)
class Graph:
    """A history by short names: "0" is the root, `nodes` are (name, parent, time) in the order of time."""

    nodes: tuple[tuple[str, str, float], ...]
    branches: dict[str, str]
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def times(self) -> dict[str, float]:
        return {"0": 0.0} | {name: time for name, _, time in self.nodes}


def scenarios() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(SCENARIOS.read_text())["scenarios"]
    return loaded


def graph_of(scenario: dict[str, Any]) -> Graph:
    nodes = tuple((node["id"], node["parent"], float(node["t"])) for node in scenario["nodes"])
    return Graph(nodes, scenario["branches"], scenario["tags"])


def micros_of(time: float) -> int:
    """Return a scenario's time as microseconds since 1970."""
    return int(time * 1_000_000) + 1_000_000_000


def history_of(graph: Graph, spec_version: int) -> History:
    """Return the history as a value; short names stand for ids."""
    entries = {"0": SnapshotEntry("0", None, micros_of(0), "root")}
    for name, parent, time in graph.nodes:
        entries[name] = SnapshotEntry(name, parent, micros_of(time), f"commit {name}")
    history = History(spec_version, entries, graph.branches, graph.tags)
    if spec_version == 1:
        reachable = history.reachable()
        kept = {name: entry for name, entry in entries.items() if name in reachable}
        history = History(1, kept, graph.branches, graph.tags)
    return history


def quiet() -> Any:
    import icechunk

    icechunk.set_logs_filter("off")
    return icechunk


def local_storage(folder: Path) -> Any:
    return quiet().local_filesystem_storage(str(folder))


def build(storage: Any, graph: Graph, spec_version: int, *, chunks: bool = True) -> dict[str, str]:
    icechunk = quiet()
    config = icechunk.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 0
    repo = icechunk.Repository.create(storage, config=config, spec_version=spec_version)
    ids = {"0": repo.lookup_branch("main")}
    for row, (name, parent, _) in enumerate(graph.nodes):
        repo.create_branch(f"at-{name}", ids[parent])
        session = repo.writable_session(f"at-{name}")
        if chunks:
            _write(session.store, row, len(graph.nodes), fresh=parent == "0")
        ids[name] = session.commit(f"commit {name}", allow_empty=True)
        repo.delete_branch(f"at-{name}")
    for name, tip in graph.branches.items():
        if name == "main":
            repo.reset_branch("main", ids[tip])
        else:
            repo.create_branch(name, ids[tip])
    for name, tip in graph.tags.items():
        repo.create_tag(name, ids[tip])
    return ids


def _write(store: Any, row: int, rows: int, *, fresh: bool) -> None:
    import zarr

    if fresh:
        zarr.create_array(store, name="numbers", shape=(rows + 1,), chunks=(1,), dtype="i8", compressors=None)
    numbers = zarr.open_array(store, path="numbers")
    numbers[0] = row + 1
    numbers[row + 1] = row + 1


def contents(repo: Any, **where: str) -> list[int]:
    """Read the array of a branch, tag or snapshot whole; raises when a chunk is missing."""
    import zarr

    store = repo.readonly_session(**where).store
    try:
        return [int(value) for value in zarr.open_array(store, path="numbers", mode="r")[:]]
    except FileNotFoundError:
        return []


def random_graph(rng: Any, commits_max: int = 12) -> Graph:
    """Draw a history with branches, tags and dangling commits."""
    count = rng.randint(1, commits_max)
    names = ["0"]
    nodes = []
    for number in range(1, count + 1):
        parent = names[-1] if rng.random() < 0.6 else rng.choice(names)
        nodes.append((str(number), parent, float(number)))
        names.append(str(number))
    branches = {"main": rng.choice(names[-3:])}
    branches |= {f"b{number}": rng.choice(names) for number in range(rng.randint(0, 4))}
    tags = {f"t{number}": rng.choice(names) for number in range(rng.randint(0, 4))}
    return Graph(tuple(nodes), branches, tags)


def s3_storage(options: Any, bucket: str, prefix: str) -> Any:
    from dredge.icechunk.library import library_storage

    quiet()
    return library_storage(f"s3://{bucket}/{prefix}", options)


def names_of(ids: dict[str, str]) -> dict[str, str]:
    return {snapshot: name for name, snapshot in ids.items()}


OBJECT_FOLDERS = ("snapshots", "transactions", "manifests", "chunks")


def objects(folder: Path) -> dict[str, set[str]]:
    """Return the names of a local repository's objects by kind."""
    return {kind: {path.name for path in (folder / kind).glob("*")} for kind in OBJECT_FOLDERS}


def deleted_of(found: Any) -> dict[str, int]:
    """The library's collected objects, by kind."""
    return {
        "snapshots": found.snapshots_deleted,
        "transactions": found.transaction_logs_deleted,
        "manifests": found.manifests_deleted,
        "chunks": found.chunks_deleted,
    }


def counts_of(report: dict[str, Any], step: str) -> dict[str, int]:
    found: dict[str, int] = next(row["counts"] for row in report["steps"] if row["step"] == step)
    return found
