"""What the local store has acknowledged is there after a loss of power."""

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dredge import process
from dredge.icechunk.repository import read_history
from dredge.storage import ObjectWriter, open_reader, open_writer
from lakefs_embedded.kv.sqlite import SQLiteKV
from lakefs_embedded.uploads import open_uploads
from tests.support.icechunk_expiring import expire_in_place
from tests.support.icechunk_past import Past
from tests.support.power import Disk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


@pytest.fixture
def disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found = Disk(folder, monkeypatch)
    yield found
    found.close()


def by_upload(store: ObjectWriter, key: str) -> None:
    uploads = open_uploads(store)
    begun = uploads.begin(key)
    part = uploads.put_part(key, begun, 1, [b"after"])
    uploads.complete(key, begun, [(part.number, part.etag)])


def by_match(store: ObjectWriter, key: str) -> None:
    store.put(key, b"before")
    etag = store.stat(key).etag
    assert etag is not None
    store.put_if_match(key, b"after", etag)


def by_copy(store: ObjectWriter, key: str) -> None:
    store.put("source", b"after")
    store.copy("source", key)


WRITES: dict[str, Callable[[ObjectWriter, str], object]] = {
    "put": lambda store, key: store.put(key, b"after"),
    "put_if_absent": lambda store, key: store.put_if_absent(key, b"after"),
    "put_if_match": by_match,
    "put_stream": lambda store, key: store.put_stream(key, [b"af", b"ter"]),
    "copy": by_copy,
    "upload": by_upload,
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("key", ["a", "new/folder/a"])
def test_acknowledged_object_is_there_after_a_loss_of_power(
    folder: Path, disk: Disk, tmp_path: Path, write: str, key: str
) -> None:
    WRITES[write](open_writer(f"file://{folder}/store"), key)
    disk.lose_power(tmp_path / "after")
    assert open_reader(f"file://{tmp_path}/after/store").get(key) == b"after"


def test_expiration_in_place_leaves_a_whole_repository_after_a_loss_of_power(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past(folder / "repo", 1)
    for _ in range(3):
        past.commit()
    disk = Disk(folder, monkeypatch)
    done = expire_in_place(open_writer(past.uri), datetime.now(UTC))
    disk.lose_power(tmp_path / "after")
    disk.close()
    assert done.edited
    found = read_history(open_reader(f"file://{tmp_path}/after/repo"))
    assert found.ancestry(found.branches["main"]) == done.plan.after.ancestry(past.tip())


@pytest.mark.parametrize(("value", "level"), [(None, 2), ("1", 1)])
def test_rows_of_the_embedded_server_are_forced_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, level: int
) -> None:
    monkeypatch.delenv(process.NO_SYNC, raising=False)
    if value is not None:
        monkeypatch.setenv(process.NO_SYNC, value)
    honest = sqlite3.connect

    def connect(*args: object, **more: object) -> sqlite3.Connection:
        found: sqlite3.Connection = honest(*args, **more)  # type: ignore[arg-type, call-overload]
        connections.append(found)
        return found

    connections: list[sqlite3.Connection] = []
    monkeypatch.setattr(sqlite3, "connect", connect)
    with SQLiteKV(str(tmp_path / "kv")) as store:
        store.set(b"p", b"k", b"v")
        asked = {row[0] for db in connections for row in db.execute("PRAGMA synchronous")}
    assert asked == {level}
