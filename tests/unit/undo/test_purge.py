"""A purge looks only into runs that began before its cutoff, and there only at what their ledgers call gone."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError
from dredge.hashing import hash64
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.storage import (
    open_writer,
)
from dredge.undo import purge as step
from dredge.undo.deleted import Collected
from dredge.undo.purge import SweptPart
from dredge.undo.side_run import SideRun
from dredge.undo.ways import OFF, QUARANTINE, VERSIONS, PurgeConfig
from dredge.xid import new_descending_xid
from tests.support.memory_store import forget_memory_store

NOW, DAY = datetime(2026, 3, 1, tzinfo=UTC), timedelta(days=1)


@pytest.fixture
def root() -> Iterator[str]:
    name = f"purge-{uuid.uuid4().hex[:8]}"
    yield f"memory://{name}"
    forget_memory_store(name)


def swept(root: str, way: str) -> SweptPart:
    """Of each outcome an object whose marker is known, `<outcome>-m`, and one without; `nothing` has no row."""
    folder = RunFolder(open_writer(f"{root}/run"), "run")
    told = [(f"data/{name}{mark}", name) for name in ledger.OUTCOMES for mark in ("", "-m")]
    addresses = pa.array([*(address for address, _ in told), "data/nothing"], pa.string())
    count = len(addresses)
    columns = {
        "address": addresses,
        "size": pa.array([7] * count, pa.int64()),
        "last_modified": pa.array([NOW] * count, pa.timestamp("us", tz="UTC")),
        "etag": pa.array(["tag"] * count),
        "hash": pa.array(hash64(addresses)),
        "reason": ["expired"] * count,
    }
    part = folder.write_table("subtract", 0, pa.table(columns), "candidates")
    rows = pa.table(
        {"address": addresses[:-1], "size": [7] * (count - 1), "reason": ["expired"] * (count - 1)}
    )
    ids = ["m" if address.endswith("-m") else None for address, _ in told]
    written = ledger.rows_of(rows, [outcome for _, outcome in told], 1, 1, version_id=ids)
    ledger.write_raw(folder, ledger.part_stem(part), 1, 0, 0, written)
    return SweptPart(run_uri=folder.uri, way=way, below=["data/"], part=part)


@pytest.mark.parametrize(
    ("way", "looked_at"),
    [
        (QUARANTINE, ["deleted", "deleted-m", "missing", "missing-m"]),
        (VERSIONS, ["deleted", "deleted-m", "missing-m"]),
        (OFF, ["deleted-m", "missing-m"]),
    ],
)
def test_only_what_the_ledger_calls_gone_and_what_its_way_can_have_left_is_looked_at(
    way: str, looked_at: list[str], root: str
) -> None:
    pages = [page["address"].to_pylist() for page in step._pages(swept(root, way))]
    assert [key for page in pages for key in page] == [f"data/{name}" for name in looked_at]


def opened(root: str, **asked: Any) -> list[str]:
    """URIs of the runs that a purge with a cutoff of now opens; runs that end with 8 or 9 cannot be opened."""
    uris = []

    def open_run(uri: str) -> Any:
        uris.append(uri)
        if uri.endswith("9"):
            raise FormatError("damaged")
        if uri.endswith("8"):
            raise ConfigError("deleted nothing")
        return uri

    collected = Collected(
        repository="lake",
        uri=f"{root}/lake",
        state=open_writer(f"{root}/state"),
        runs_uri=f"{root}/runs",
        open_run=open_run,
    )
    config = PurgeConfig(repository="lake", **asked)
    began = NOW + timedelta(days=config.older_than_days)
    plan = SimpleNamespace(run_id="purge", created_at=began)
    run = cast(
        "SideRun", SimpleNamespace(options=None, plan=plan, state=collected.state, store_now=lambda: began)
    )
    given: list[Any] = list(step.swept_before(collected, run, config))
    assert given == [uri for uri in uris if uri[-1] not in "89"]
    return uris


def test_only_runs_that_began_before_the_cutoff_are_opened_and_what_cannot_be_is_passed_over(
    root: str,
) -> None:
    names = {at: new_descending_xid(NOW + timedelta(seconds=at)) for at in (-2, -1, 0, 1)}
    for folder in ("runs", "elsewhere"):
        for name in (*names.values(), "no-run"):
            open_writer(f"{root}/{folder}/{name}").put("plan.json", b"{}")
    assert sorted(opened(root)) == sorted(f"{root}/runs/{names[at]}" for at in (-1, -2))
    assert sorted(opened(root, run_root=f"{root}/elsewhere/")) == sorted(
        f"{root}/elsewhere/{names[at]}" for at in (-1, -2)
    )
    assert opened(root, run=names[1]) == [f"{root}/runs/{names[1]}"], (
        "asked for by its name; what it left is looked at"
    )
    with pytest.raises(FormatError):
        opened(root, run="run-9")


"""Of the candidates of that run, by store."""
