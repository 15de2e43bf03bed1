"""On random histories every rule does what the real library does, or what the design document says.

`DREDGE_CASES` sets the number of cases a rule; a failing case is named by its seed.
"""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.icechunk.expiration.apply import differ
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.history import History
from dredge.icechunk.library import delete_ref
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader, open_writer
from tests.support.depth import depth
from tests.support.icechunk import Graph, build, local_storage, quiet, random_graph
from tests.support.icechunk_expiring import expire_in_place

CASES = depth(24, 400, "DREDGE_CASES")
VARIANTS = 4  # thresholds and flags a history
SEEDS = range(max(1, CASES // VARIANTS))


@dataclass(frozen=True)
class Case:
    folder: Path
    graph: Graph
    ids: dict[str, str]
    threshold: datetime
    branches: bool
    tags: bool

    @property
    def library(self) -> Any:
        return quiet().Repository.open(local_storage(self.folder))

    def history(self) -> History:
        return read_history(open_reader(f"file://{self.folder}"))


def cases(seed: int, spec: int, folder: Path) -> Iterator[Case]:
    """Write one random history, and give copies of it with thresholds and flags."""
    rng = random.Random(seed * 2 + spec)
    graph = random_graph(rng)
    ids = build(local_storage(folder / "made"), graph, spec, chunks=False)
    times = read_times(folder / "made", ids)
    for variant in range(VARIANTS):
        copy = folder / f"copy-{variant}"
        shutil.copytree(folder / "made", copy)
        picked = rng.choice(list(times.values())) + rng.choice([0, 1])
        yield Case(copy, graph, ids, instant(picked), rng.random() < 0.5, rng.random() < 0.5)


def read_times(folder: Path, ids: dict[str, str]) -> dict[str, int]:
    from dredge.icechunk.format.metadata import parse_snapshot

    return {
        name: parse_snapshot((folder / "snapshots" / snapshot).read_bytes(), snapshot).flushed_at
        for name, snapshot in ids.items()
    }


@pytest.mark.hunt
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("spec", [1, 2])
def test_plan_is_what_the_library_does(seed: int, spec: int, tmp_path: Path) -> None:
    for case in cases(seed, spec, tmp_path):
        for _ in range(2):
            plan = plan_expiration(
                case.history(),
                case.threshold,
                delete_expired_branches=case.branches,
                delete_expired_tags=case.tags,
            )
            released = case.library.expire_snapshots(
                case.threshold, delete_expired_branches=case.branches, delete_expired_tags=case.tags
            )
            assert differ(plan, case.history(), released) == []


@pytest.mark.hunt
@pytest.mark.parametrize("seed", SEEDS)
def test_in_place_edits_leave_what_the_library_would_leave(seed: int, tmp_path: Path) -> None:
    for case in cases(seed, 1, tmp_path):
        ours = tmp_path / f"ours-{case.folder.name}"
        shutil.copytree(case.folder, ours)
        case.library.expire_snapshots(
            case.threshold, delete_expired_branches=case.branches, delete_expired_tags=case.tags
        )
        repository = quiet().Repository.open(local_storage(ours))
        expire_in_place(
            open_writer(f"file://{ours}"),
            case.threshold,
            rule="spec_v1",
            delete_expired_branches=case.branches,
            delete_expired_tags=case.tags,
            delete_ref=lambda ref, repository=repository: delete_ref(repository, ref),
        )
        assert read_history(open_reader(f"file://{ours}")).digest == case.history().digest
        reopened = quiet().Repository.open(local_storage(ours))
        for branch in reopened.list_branches():
            assert [info.id for info in reopened.ancestry(branch=branch)] == [
                info.id for info in case.library.ancestry(branch=branch)
            ]


def document_oracle(case: Case, times: dict[str, int], threshold: int) -> dict[str, list[str]]:
    """The design document's pseudo-code, line by line, on plain names; with its two guards."""
    parent: dict[str, str | None] = {"0": None} | {name: above for name, above, _ in case.graph.nodes}

    def ancestry(name: str) -> list[str]:
        path = [name]
        while (above := parent[path[-1]]) is not None:
            path.append(above)
        return path

    refs = {f"tag:{name}": tip for name, tip in case.graph.tags.items()}
    refs |= {f"branch:{name}": tip for name, tip in case.graph.branches.items()}
    for tip in refs.values():
        if times[tip] < threshold:
            continue
        path = ancestry(tip)
        root = next(name for name in path if parent[name] is None)
        editable = [name for name in path if times[name] >= threshold][-1]
        if editable == root or parent[editable] == root:
            continue
        parent[editable] = root
    return {label: [case.ids[name] for name in ancestry(tip)] for label, tip in refs.items()}


@pytest.mark.hunt
@pytest.mark.parametrize("seed", SEEDS)
def test_document_rule_applied_in_place_leaves_what_the_document_says(seed: int, tmp_path: Path) -> None:
    for case in cases(1000 + seed, 1, tmp_path):
        times = read_times(case.folder, case.ids)
        micros = round(case.threshold.timestamp() * 1_000_000)
        expected = document_oracle(case, times, micros)
        before = case.history()
        applied = expire_in_place(open_writer(f"file://{case.folder}"), case.threshold, rule="document")
        after = case.history()
        assert {ref.label: after.ancestry(ref.tip) for ref in after.refs} == expected
        assert set(applied.plan.released) == before.reachable() - after.reachable()
        assert {entry.id: entry.flushed_at for entry in after.snapshots.values()}.items() <= {
            entry.id: entry.flushed_at for entry in before.snapshots.values()
        }.items()
        library = case.library
        for ref in after.refs:
            where = {ref.kind: ref.name}
            assert [info.id for info in library.ancestry(**where)] == expected[ref.label]
