"""Compiled kernels are found, cached where only their user can write, and never run in an old version."""

import importlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dredge import compiled

find = compiled.kernels.__wrapped__  # without the memory of the first answer


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[bool, str]]:
    from numba.core import config

    seen: list[tuple[bool, str]] = []

    def pretend(name: str) -> ModuleType:
        assert name == "dredge.kernels.entry"
        seen.append((compiled.caching(), config.CACHE_DIR))  # type: ignore[attr-defined]
        return ModuleType(name)

    monkeypatch.setattr(compiled.importlib, "import_module", pretend)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return seen


def test_code_is_cached_in_a_folder_named_after_the_source(
    imports: list[tuple[bool, str]], tmp_path: Path
) -> None:
    from numba.core import config

    before = config.CACHE_DIR  # type: ignore[attr-defined]
    assert find() is not None
    ((cached, folder),) = imports
    assert cached
    assert Path(folder).parent == tmp_path / "cache/dredge"
    assert Path(folder).stat().st_mode & 0o077 == 0
    assert before == config.CACHE_DIR  # type: ignore[attr-defined]
    assert not compiled.caching()


def test_a_folder_that_others_can_write_to_is_never_used(
    imports: list[tuple[bool, str]], tmp_path: Path
) -> None:
    find()
    folder = Path(imports[0][1])
    folder.chmod(0o777)
    find()
    assert imports[1][0]
    assert Path(imports[1][1]).parent == tmp_path / f"tmp/dredge-{os.getuid()}"


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


def test_code_is_found_wherever_the_package_lies() -> None:
    folder = Path(compiled.kernels().decode._cache.cache_path)
    assert folder.name == f"kernels-{compiled._source_hash()}"


def test_after_a_cache_that_failed_all_kernels_are_imported_anew_and_their_types_kept() -> None:
    program = (
        "import sys; from dredge import compiled; from dredge.kernels import interface;"
        "module = compiled.kernels(); compiled._forget_kernels();"
        "left = [name for name in sys.modules if name.startswith('dredge.kernels.')];"
        "sys.exit(left != ['dredge.kernels.interface'] or compiled.importlib.import_module("
        "'dredge.kernels.entry') is module)"
    )
    # What is imported and forgotten is looked at, not what is compiled.
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})


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
