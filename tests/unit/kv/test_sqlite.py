"""What the SQLite driver promises beyond the conformance suite."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from dredge.errors import ConfigError, FormatError, UnavailableError
from lakefs_embedded.kv import open_store
from lakefs_embedded.kv.sqlite import SQLiteKV

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kv.db"


def test_a_writer_that_waits_too_long_says_try_again_and_has_written_nothing(path: Path) -> None:
    with SQLiteKV(str(path), busy_seconds=0.1) as store:
        store.set(b"p", b"k", b"v")
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        for write in (
            lambda: store.set(b"p", b"k", b"new"),
            lambda: store.set_if(b"p", b"k", b"new", b"v"),
            lambda: store.set_if(b"p", b"new", b"new", None),
            lambda: store.delete(b"p", b"k"),
        ):
            with pytest.raises(UnavailableError, match="locked"):
                write()
        holder.execute("ROLLBACK")
        holder.close()
        assert store.get(b"p", b"k") == b"v"
        store.set(b"p", b"k", b"new")


@pytest.mark.parametrize("url", ["sqlite://relative.db", "sqlite://", "sqlite:///no/such/folder/kv.db"])
def test_a_wrong_place_is_an_error_of_the_configuration(url: str) -> None:
    with pytest.raises(ConfigError):
        open_store(url)


def test_a_file_of_something_else_is_refused_and_kept(path: Path) -> None:
    path.write_bytes(b"this is not a database, but somebody may need it" * 100)
    before = path.read_bytes()
    with pytest.raises(FormatError):
        SQLiteKV(str(path))
    assert path.read_bytes() == before


def test_a_closed_store_is_closed(path: Path) -> None:
    store = SQLiteKV(str(path))
    store.close()
    store.close()
    with pytest.raises(ConfigError, match="closed"):
        store.get(b"p", b"k")


FORK = """
import os, sys, warnings
from lakefs_embedded.kv.sqlite import SQLiteKV
store = SQLiteKV(sys.argv[1])
store.set(b"p", b"parent", b"1")
warnings.simplefilter("ignore")
pid = os.fork()
if pid == 0:
    for n in range(200):
        store.set(b"p", b"child%d" % n, b"2")
    store.close()
    os._exit(0)
for n in range(200):
    store.set(b"p", b"parent%d" % n, b"1")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert len(list(store.scan(b"p"))) == 401
store.close()
import sqlite3
assert sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchone() == ("ok",)
"""


def test_parent_and_forked_child_write_side_by_side(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(path)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
