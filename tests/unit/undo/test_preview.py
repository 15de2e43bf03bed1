"""Which of a run's deletions are asked for, and what it would be that comes back."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.storage import open_writer
from dredge.undo.deleted import SweptRun, preview
from dredge.undo.ways import QUARANTINE, RestoreConfig
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    name = f"choosing-{uuid.uuid4().hex[:8]}"
    yield RunFolder(open_writer(f"memory://{name}/run"), "run")
    forget_memory_store(name)


def swept(folder: RunFolder, *parts: dict[str, tuple[int, str]], way: str = QUARANTINE) -> SweptRun:
    """A run that deleted objects of these sizes, for these reasons."""
    written = []
    for number, found in enumerate(parts):
        addresses = pa.array([*found], pa.string())
        columns = {
            "address": addresses,
            "size": pa.array([size for size, _ in found.values()], pa.int64()),
            "last_modified": pa.array([NOW] * len(found), pa.timestamp("us", tz="UTC")),
            "etag": pa.nulls(len(found), pa.string()),
            "hash": pa.array(hash64(addresses)),
            "reason": pa.array([reason for _, reason in found.values()], pa.string()),
        }
        written.append(folder.write_table("subtract", number, pa.table(columns), "candidates"))
    return SweptRun(way, folder, written, ("data/",))


def config(**asked: Any) -> RestoreConfig:
    return RestoreConfig.from_params({"repository": "lake", "run": "run", **asked})


FIRST = {"data/a": (1, "expired"), "data/ab": (2, "never_linked"), "data/b": (4, "expired")}
SECOND = {"data/abc": (8, "expired"), "data/c": (16, "never_linked")}


@pytest.mark.parametrize(
    ("asked", "addresses"),
    [
        ({"all": True}, [*FIRST, *SECOND]),
        ({"prefix": "data/a"}, ["data/a", "data/ab", "data/abc"]),
        ({"address": "data/a"}, ["data/a"]),
        ({"address": "data/a", "prefix": "data/b"}, ["data/a"]),
        ({"reason": "expired"}, ["data/a", "data/b", "data/abc"]),
        ({"reason": "expired", "prefix": "data/a"}, ["data/a", "data/abc"]),
        ({"reason": "never_linked", "address": "data/a"}, []),
        ({"prefix": "data/x"}, []),
    ],
)
def test_what_is_asked_for_comes_back_and_nothing_else(
    asked: dict[str, Any], addresses: list[str], folder: RunFolder
) -> None:
    found = preview(config(**asked), swept(folder, FIRST, SECOND))
    every = {**FIRST, **SECOND}
    assert found.examples == addresses
    assert found.objects == len(addresses)
    assert found.size_bytes == sum(every[address][0] for address in addresses)
    reasons = [every[address][1] for address in addresses]
    assert found.reasons == {reason: reasons.count(reason) for reason in reasons}


@pytest.mark.parametrize("more", [{"prefix": "data/"}, {"address": "data/a"}, {"reason": "expired"}])
def test_everything_is_asked_for_alone(more: dict[str, str]) -> None:
    assert config(all=True).everything
    assert not config(**more).everything
    with pytest.raises(ConfigError):
        config(all=True, **more)


@pytest.mark.parametrize(
    "asked", [{}, {"all": False}, {"all": True, "keep_days": 0.9}, {"address": "a", "keep_days": 0.9}]
)
def test_something_must_be_asked_for_and_kept_for_a_day(asked: dict[str, Any]) -> None:
    assert config(all=True, keep_days=1).keep_days == 1
    with pytest.raises(ConfigError):
        config(**asked)
