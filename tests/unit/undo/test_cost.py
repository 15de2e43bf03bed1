"""What it costs that deletions can be taken back is said before anything is deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dredge.storage.memory import MemoryDeleter, MemoryReader, MemoryVersions, MemoryWriter
from dredge.undo.cost import cost_of_undo
from tests.support.undo import undo_world


@pytest.mark.parametrize(
    ("way", "objects", "size_bytes", "requests", "kept_bytes"),
    [
        ("off", 10, 1000, 0, 0),
        ("versions", 10, 1000, 0, 1000),
        ("quarantine", 10, 1000, 30, 1000),
        ("quarantine", 1, 8 << 30, 11, 8 << 30),
    ],
)
def test_cost(way: str, objects: int, size_bytes: int, requests: int, kept_bytes: int) -> None:
    found = cost_of_undo(way, objects, size_bytes)
    assert (found.requests, found.size_bytes) == (requests, kept_bytes)
    assert (found.seconds > 0) == (way == "quarantine")


@contextmanager
def requests() -> Iterator[Counter[str]]:
    """Count what a memory store is asked, by what."""
    found: Counter[str] = Counter()
    places: list[tuple[type, str]] = [
        (MemoryReader, "stat"),
        (MemoryReader, "get"),
        (MemoryReader, "_infos"),
        (MemoryWriter, "_write"),
        (MemoryDeleter, "delete"),
        (MemoryVersions, "versioning"),
        (MemoryVersions, "versions"),
    ]
    with pytest.MonkeyPatch.context() as patched:
        for kind, name in places:
            honest = getattr(kind, name)

            def counted(self: Any, *args: Any, honest: Any = honest, name: str = name, **more: Any) -> Any:
                found[name] += 1
                return honest(self, *args, **more)

            patched.setattr(kind, name, counted)
        yield found


def test_without_undo_a_run_asks_the_store_for_nothing_more_but_two_looks_at_pins() -> None:
    """One by the comparison and one by the sweep; with versions, a look at the bucket before each group of keys."""
    asked: dict[str, Counter[str]] = {}
    for way in ("off", "auto", "no pins", "versions"):
        world, _, gone = undo_world("off" if way == "no pins" else way)
        with requests() as asked[way], pytest.MonkeyPatch.context() as patched:
            if way == "no pins":
                patched.setattr("dredge.gc.subtract.step.active_pins", lambda *_: [])
                patched.setattr("dredge.gc.bulk_delete.step.active_pins", lambda *_: [])
            world.run(world.plan())
    assert asked["off"] - asked["no pins"] == Counter({"_infos": 2})
    assert asked["no pins"] - asked["off"] == Counter()
    assert asked["auto"] == asked["off"] + Counter({"versioning": 1})
    assert asked["versions"] - asked["off"] == Counter({"versioning": 1 + asked["off"]["delete"]})
    assert asked["off"]["delete"] < len(gone)
