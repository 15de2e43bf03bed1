"""Compiled kernels are found, cached where only their user can write, and never run in an old version."""

import importlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from xxhash import xxh64_intdigest

from dredge import compiled

CODES = {"hash_texts": [[["uint8", 1, False]], ["00"]]}


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    made: list[int] = []

    def pretend() -> Any:
        made.append(1)
        return CODES

    monkeypatch.setattr(compiled, "_compile", pretend)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return made


def files_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("code.json"))


def test_code_is_cached_in_a_folder_named_after_the_source(compilations: list[int], tmp_path: Path) -> None:
    assert compiled._read_or_compile() == CODES
    (file,) = files_below(tmp_path)
    assert file.parent == tmp_path / f"cache/dredge/kernels-{compiled._source_hash()}"
    assert file.parent.stat().st_mode & 0o077 == 0
    assert compiled._read_or_compile() == CODES
    assert len(compilations) == 1


def test_a_folder_that_others_can_write_to_is_never_used(compilations: list[int], tmp_path: Path) -> None:
    compiled._read_or_compile()
    (file,) = files_below(tmp_path)
    file.parent.chmod(0o777)
    compiled._read_or_compile()
    assert len(compilations) == 2
    assert {path.parent.parent for path in files_below(tmp_path)} - {file.parent.parent} == {
        tmp_path / f"tmp/dredge-{os.getuid()}"
    }


def test_a_damaged_file_is_made_again(compilations: list[int], tmp_path: Path) -> None:
    compiled._read_or_compile()
    (file,) = files_below(tmp_path)
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:40] + b"x" + whole[41:]):
        file.write_bytes(damaged)
        assert compiled._read_or_compile() == CODES
        assert file.read_bytes() == whole
    assert len(compilations) == 4


def test_a_file_that_cannot_be_read_or_replaced_is_passed_by(compilations: list[int], tmp_path: Path) -> None:
    compiled._read_or_compile()
    (file,) = files_below(tmp_path)
    file.unlink()
    file.mkdir()
    assert compiled._read_or_compile() == CODES
    assert len(files_below(tmp_path / "tmp")) == 1


def test_a_change_in_any_file_of_the_kernels_changes_the_cache_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "kernels"
    shutil.copytree(Path(compiled.__file__).parent / "kernels", package)
    spec = SimpleNamespace(origin=str(package / "__init__.py"))
    monkeypatch.setattr(compiled.importlib.util, "find_spec", lambda _name: spec)
    versions = [compiled._source_hash()]
    for path in sorted(package.glob("*.py")):
        path.write_text(path.read_text() + "#")
        versions.append(compiled._source_hash())
    assert len(versions) > 5
    assert None not in versions
    assert len(set(versions)) == len(versions)


def test_cached_kernels_are_loaded_without_numba() -> None:
    compiled.kernels()
    program = (
        "import sys; import numpy as np; from dredge import compiled; hashes = np.empty(1, np.uint64);"
        "compiled.kernels().hash_texts(np.frombuffer(b'a', np.uint8), np.array([0, 1]), hashes);"
        "print(hashes[0], 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [str(xxh64_intdigest(b"a", 42)), "False"]


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(2, np.int32),
        np.zeros((2, 1), np.uint64),
        np.zeros(4, np.uint64)[::2],
        np.frombuffer(bytes(16), np.uint64),
    ],
    ids=["type", "dimensions", "gaps", "read-only"],
)
def test_arrays_of_other_types_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        compiled.kernels().hash_texts(np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2]), wrong)
    with pytest.raises(ValueError, match="argument"):
        compiled.kernels().hash_texts(np.frombuffer(b"ab", np.uint8))


def test_processes_wait_for_the_one_that_compiles(tmp_path: Path) -> None:
    order: list[str] = []

    def late() -> None:
        with compiled._one_at_a_time(tmp_path):
            order.append("late")

    with compiled._one_at_a_time(tmp_path):
        thread = threading.Thread(target=late)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "late"]


def test_waiting_has_an_end(tmp_path: Path) -> None:
    entered: list[Any] = []
    with compiled._one_at_a_time(tmp_path), compiled._one_at_a_time(tmp_path, 0.1):
        entered.append(True)
    assert entered


def test_importing_dredge_imports_no_numba() -> None:
    program = (
        "import sys, dredge.hashing, dredge.compiled, dredge.lakefs.files.sstable.columns, lakefs_embedded.committed;"
        "sys.exit('numba' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert importlib.util.find_spec("numba") is not None
